// Reading a job's events and logs while it runs and afterwards.
#include "coordinator/job_reader.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "coordinator/controller_fixture.h"
#include "coordinator/test_spec.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

// Keeps what it is sent. Each message is under way until the test says so.
template <typename Cursor>
class FakeReader final : public CursorReader<Cursor> {
 public:
  using CursorReader<Cursor>::CursorReader;

  void End(const absl::Status& status) override { ended = status; }

  std::vector<typename Cursor::Response> sent;
  std::optional<absl::Status> ended;

 private:
  void Send(typename Cursor::Response response) override {
    sent.push_back(std::move(response));
  }
};

using EventReader = FakeReader<EventCursor>;
using LogReader = FakeReader<LogCursor>;

class JobReaderTest : public ControllerTest {
 protected:
  template <typename Cursor>
  std::shared_ptr<FakeReader<Cursor>> Read(
      const typename Cursor::Request& request) {
    auto reader = std::make_shared<FakeReader<Cursor>>(request);
    controller_->Read(request.version(), request.job_id(), reader);
    Deliver(reader);
    return reader;
  }
  // Everything that is under way arrives, and what follows from that.
  template <typename Reader>
  void Deliver(const std::shared_ptr<Reader>& reader) {
    size_t before = 0;
    do {
      before = reader->sent.size();
      controller_->ReadOn(reader);
      RunAll();
    } while (reader->sent.size() > before);
  }
  std::shared_ptr<EventReader> Events(bool follow, int64_t after = 0) {
    auto request = Versioned<v1::StreamEventsRequest>();
    request.set_job_id("latest");
    request.set_follow(follow);
    request.set_after_revision(after);
    return Read<EventCursor>(request);
  }
  std::shared_ptr<LogReader> Logs(bool follow, const std::string& worker = "",
                                  int64_t offset = 0) {
    auto request = Versioned<v1::StreamLogsRequest>();
    request.set_job_id("job-1");
    request.set_follow(follow);
    request.set_worker(worker);
    if (offset > 0) {
      request.add_from()->set_worker(worker);
      request.mutable_from(0)->set_offset(offset);
    }
    return Read<LogCursor>(request);
  }
  void SayLog(FakeWorker& worker, int64_t offset, const std::string& data) {
    v1::WorkerMessage message;
    message.mutable_log()->set_job_id("job-1");
    message.mutable_log()->set_offset(offset);
    message.mutable_log()->set_data(data);
    Say(worker, std::move(message));
  }
  static std::string Kinds(const EventReader& reader) {
    std::string kinds;
    for (const auto& response : reader.sent) {
      for (const v1::JobEvent& event : response.events()) {
        absl::StrAppend(&kinds, kinds.empty() ? "" : " ", event.kind());
        if (event.kind() == "step") {
          absl::StrAppend(&kinds, ":", event.result().step());
        }
      }
      if (response.has_end()) {
        absl::StrAppend(&kinds, " ", response.end().over() ? "OVER" : "END");
      }
    }
    return kinds;
  }
  // "w0@0:text" of each piece.
  static std::string Pieces(const LogReader& reader) {
    std::string pieces;
    for (const auto& response : reader.sent) {
      if (response.has_end()) {
        absl::StrAppend(&pieces, response.end().over() ? "OVER" : "END");
      } else {
        absl::StrAppend(&pieces, response.piece().worker(), "@",
                        response.piece().offset(), ":",
                        response.piece().data());
      }
    }
    return pieces;
  }
};

TEST_F(JobReaderTest, EventsOfAWholeLifeHaveRevisionsWithoutGaps) {
  JoinMany(2);
  Submit(TinySpec(2));
  auto reader = Events(true);
  EXPECT_FALSE(reader->ended.has_value());
  Serve();
  Deliver(reader);
  EXPECT_EQ(Kinds(*reader),
            "submitted planning planned placed running step:0 step:1 "
            "worker_released worker_released succeeded OVER");
  int64_t revision = 0;
  for (const auto& response : reader->sent) {
    for (const v1::JobEvent& event : response.events()) {
      EXPECT_EQ(event.revision(), ++revision);
    }
  }
  EXPECT_EQ(revision, Get("job-1")->revision());
  EXPECT_EQ(reader->ended, absl::OkStatus());
  EXPECT_EQ(reader->sent.back().end().job_id(), "job-1");
  EXPECT_EQ(reader->sent.back().end().state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(JobReaderTest, EventsAreDatedByTheCalendar) {
  JoinMany(1);
  const int64_t submitted = absl::ToUnixMicros(clock_.WallNow());
  Submit(TinySpec(1));
  clock_.Advance(absl::Seconds(3));
  Serve();
  const auto reader = Events(true);
  const auto& events = reader->sent.at(0).events();
  EXPECT_EQ(events.begin()->unix_microseconds(), submitted);
  EXPECT_GE(events.rbegin()->unix_microseconds(), submitted + 3'000'000);
}

TEST_F(JobReaderTest, EventsResumeAfterARevision) {
  JoinMany(1);
  Submit(TinySpec(1));
  Serve();
  EXPECT_EQ(Kinds(*Events(false, 4)),
            "running step:0 step:1 worker_released succeeded OVER");
  EXPECT_EQ(Kinds(*Events(true, 9)), " OVER");
}

TEST_F(JobReaderTest, WithoutFollowTheStreamEndsWhereTheJobIs) {
  JoinMany(1);
  Submit(TinySpec(1));
  Serve("begin:1");
  auto reader = Events(false);
  EXPECT_EQ(Kinds(*reader),
            "submitted planning planned placed running step:0 END");
  EXPECT_EQ(reader->sent.back().end().state(), v1::JOB_STATE_RUNNING);
}

TEST_F(JobReaderTest, AFailureHasItsCauseAndVictims) {
  JoinMany(2);
  Submit(TinySpec(2));
  Serve("begin:1");
  Fail(worker(1), v1::FAILURE_KIND_OUT_OF_MEMORY, "no memory");
  Serve();
  auto reader = Events(true);
  EXPECT_TRUE(absl::EndsWith(
      Kinds(*reader), "failing worker_released worker_released failed OVER"))
      << Kinds(*reader);
  for (const v1::JobEvent& event : reader->sent[0].events()) {
    if (event.kind() != "failing") continue;
    EXPECT_EQ(event.cause().worker(), "w1");
    EXPECT_EQ(event.cause().message(), "no memory");
    ASSERT_EQ(event.victims_size(), 1);
    EXPECT_EQ(event.victims(0), "w0");
  }
}

// One message is under way at most, whatever happens meanwhile.
TEST_F(JobReaderTest, ASlowReaderIsNotFlooded) {
  JoinMany(1);
  Submit(TinySpec(1, 50));
  auto request = Versioned<v1::StreamEventsRequest>();
  request.set_job_id("job-1");
  request.set_follow(true);
  auto reader = std::make_shared<EventReader>(request);
  controller_->Read(request.version(), "job-1", reader);
  RunAll();
  ASSERT_EQ(reader->sent.size(), 1u);
  Serve();
  EXPECT_EQ(reader->sent.size(), 1u);
  Deliver(reader);
  EXPECT_EQ(reader->ended, absl::OkStatus());
  EXPECT_LE(reader->sent.size(), 3u);
}

TEST_F(JobReaderTest, LogsOfAllWorkersUntilTheJobIsOver) {
  JoinMany(2);
  Submit(TinySpec(2));
  Serve("begin:1");
  SayLog(worker(0), 0, "one\n");
  SayLog(worker(1), 0, "two\n");
  auto reader = Logs(true);
  EXPECT_EQ(Pieces(*reader), "w0@0:one\nw1@0:two\n");
  SayLog(worker(0), 4, "three\n");
  Deliver(reader);
  EXPECT_FALSE(reader->ended.has_value());
  Serve();
  Deliver(reader);
  EXPECT_EQ(Pieces(*reader), "w0@0:one\nw1@0:two\nw0@4:three\nOVER");
  // Again, later, from the middle.
  EXPECT_EQ(Pieces(*Logs(true, "w0", 4)), "w0@4:three\nOVER");
  EXPECT_EQ(Pieces(*Logs(false, "w0", 10)), "OVER");
}

TEST_F(JobReaderTest, EachPieceIsAcknowledgedToItsWorker) {
  JoinMany(1);
  Submit(TinySpec(1));
  Serve("begin:1");
  SayLog(worker(0), 0, "one\n");
  SayLog(worker(0), 0, "one\ntwo\n");
  ASSERT_TRUE(worker(0).received.back().has_log_acknowledged());
  EXPECT_EQ(worker(0).received.back().log_acknowledged().job_id(), "job-1");
  EXPECT_EQ(worker(0).received.back().log_acknowledged().next_offset(), 8);
  EXPECT_EQ(Pieces(*Logs(false)), "w0@0:one\ntwo\nEND");
}

// The rest of a log may come after the job has ended, over a new connection.
TEST_F(JobReaderTest, AReturningWorkerGoesOnWhereItWas) {
  JoinMany(1);
  Submit(TinySpec(1));
  Serve("begin:1");
  SayLog(worker(0), 0, "one\n");
  Disconnect(worker(0));
  EXPECT_EQ(Pieces(*Logs(true)), "w0@0:one\nOVER");
  auto again = Connect();
  again->name = "w0";
  again->incarnation = worker(0).incarnation;
  SayUnfenced(*again, [&] {
    v1::WorkerMessage message;
    message.mutable_fence()->set_incarnation(again->incarnation);
    message.mutable_register_()->set_worker("w0");
    message.mutable_register_()->mutable_version()->set_protocol(
        kProtocolVersion);
    return message;
  }());
  SayLog(*again, 0, "one\ntwo\n");
  EXPECT_EQ(Pieces(*Logs(true)), "w0@0:one\ntwo\nOVER");
}

TEST_F(JobReaderTest, UnknownJobsAndWorkersAreNotFound) {
  auto none = Logs(true);
  EXPECT_TRUE(absl::IsNotFound(*none->ended));
  JoinMany(1);
  Submit(TinySpec(1));
  Serve();
  auto reader = Logs(true, "w7");
  ASSERT_TRUE(reader->ended.has_value());
  EXPECT_EQ(reader->ended->message(), "job-1 has no worker \"w7\"; it has w0");
  EXPECT_TRUE(reader->sent.empty());
}

TEST_F(JobReaderTest, AStoppedReaderGetsNothingMore) {
  JoinMany(1);
  Submit(TinySpec(1));
  auto reader = Events(true);
  const size_t sent = reader->sent.size();
  controller_->StopReading(reader);
  Serve();
  Deliver(reader);
  EXPECT_EQ(reader->sent.size(), sent);
}

TEST_F(JobReaderTest, TheCoordinatorsEndIsTheReadersEnd) {
  JoinMany(1);
  Submit(TinySpec(1));
  auto reader = Events(true);
  controller_->Stop(absl::UnavailableError("stopping"));
  RunAll();
  EXPECT_TRUE(absl::IsUnavailable(*reader->ended));
}

}  // namespace
}  // namespace stagecoach::coordinator
