// `job logs` and `job events`, against a fake coordinator.
#include "client/job_stream_commands.h"

#include <signal.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/testing/client_process.h"
#include "client/testing/fake_coordinator.h"
#include "client/testing/sample_messages.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

class JobStreamCommandsTest : public testing::Test {
 protected:
  JobStreamCommandsTest() : address_(coordinator_.Start()) {}

  std::vector<std::string> Words(std::vector<std::string> words) {
    words.insert(words.end(), {"--endpoint", address_});
    return words;
  }
  ClientResult Run(std::vector<std::string> words) {
    return RunClient(Words(std::move(words)));
  }
  void PutJob(v1::JobState state) {
    v1::Job job = SucceededJob();
    job.set_state(state);
    coordinator_.Put(job);
  }
  void AddEvent(const std::string& kind) {
    v1::JobEvent event;
    event.set_kind(kind);
    event.set_message(absl::StrCat("about ", kind));
    coordinator_.AddEvent("j-1", event);
  }
  static std::vector<Json> Documents(const ClientResult& result) {
    std::vector<Json> documents;
    for (const auto& line :
         absl::StrSplit(result.out, '\n', absl::SkipEmpty())) {
      documents.push_back(Json::parse(std::string(line)));
    }
    return documents;
  }

  FakeCoordinator coordinator_;
  const std::string address_;
};

// ---- logs -------------------------------------------------------------------

TEST_F(JobStreamCommandsTest, LogsOfAllWorkersEndWithTheJob) {
  PutJob(v1::JOB_STATE_SUCCEEDED);
  coordinator_.AddLog("j-1", "w0", "a first line\nand a second\n");
  coordinator_.AddLog("j-1", "w1", "another worker's\n");
  const ClientResult result = Run({"job", "logs", "latest", "-f"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out,
            "w0 | a first line\nw0 | and a second\nw1 | another worker's\n"
            "[end of the log of j-1: SUCCEEDED]\n");
}

TEST_F(JobStreamCommandsTest, OneWorkersLogIsByteByByte) {
  PutJob(v1::JOB_STATE_RUNNING);
  coordinator_.AddLog("j-1", "w0", "a first line\nunfinished");
  coordinator_.AddLog("j-1", "w1", "another worker's\n");
  ClientResult result = Run({"job", "logs", "j-1", "--worker", "w0"});
  EXPECT_EQ(result.out, "a first line\nunfinished\n");
  result = Run({"job", "logs", "j-1", "--worker", "w0", "--offset", "13"});
  EXPECT_EQ(result.out, "unfinished\n");
  EXPECT_EQ(result.exit_code, 0);
}

TEST_F(JobStreamCommandsTest, JsonHasOneDocumentPerLineAndTheEnd) {
  PutJob(v1::JOB_STATE_FAILED);
  coordinator_.AddLog("j-1", "w0", "one\ntwo\n");
  coordinator_.AddLog("j-1", "w1", "three\n");
  const ClientResult result =
      Run({"job", "logs", "j-1", "-f", "-o", "json", "--offset", "w0=4"});
  const std::vector<Json> documents = Documents(result);
  ASSERT_EQ(documents.size(), 3u) << result.out;
  EXPECT_EQ(documents[0]["worker"], "w0");
  EXPECT_EQ(documents[0]["offset"], 4);
  EXPECT_EQ(documents[0]["next_offset"], 8);
  EXPECT_EQ(documents[0]["line"], "two");
  EXPECT_EQ(documents[1]["line"], "three");
  EXPECT_EQ(documents[2]["end"], true);
  EXPECT_EQ(documents[2]["over"], true);
  EXPECT_EQ(documents[2]["job_id"], "j-1");
  EXPECT_EQ(documents[2]["state"], "FAILED");
}

// Whatever breaks in between, every byte comes once.
TEST_F(JobStreamCommandsTest, LostConnectionsLoseNothingAndRepeatNothing) {
  PutJob(v1::JOB_STATE_SUCCEEDED);
  const std::string log = "one line\nanother line\nthe third\n";
  coordinator_.AddLog("j-1", "w0", log);
  coordinator_.BreakNextReads(3);
  const ClientResult result =
      Run({"job", "logs", "j-1", "-f", "--worker", "w0"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out, log + "[end of the log of j-1: SUCCEEDED]\n");
}

TEST_F(JobStreamCommandsTest, CtrlCSaysHowToGoOn) {
  PutJob(v1::JOB_STATE_RUNNING);
  coordinator_.AddLog("j-1", "w0", "one\n");
  // The second stream waits, with the first one's bytes in its request.
  coordinator_.BreakNextReads(1);
  ClientProcess client(Words({"job", "logs", "j-1", "-f"}));
  coordinator_.WaitForReads(2);
  client.Signal(SIGINT);
  const ClientResult result = client.Finish();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(result.out, "w0 | one\n");
  EXPECT_THAT(result.error, HasSubstr("go on with --offset w0=4"));
}

TEST_F(JobStreamCommandsTest, FollowingSeesWhatComesLater) {
  PutJob(v1::JOB_STATE_RUNNING);
  ClientProcess client(Words({"job", "logs", "j-1", "--follow"}));
  coordinator_.WaitForReads(1);
  coordinator_.AddLog("j-1", "w0", "late\n");
  PutJob(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(client.Finish().out,
            "w0 | late\n[end of the log of j-1: CANCELLED]\n");
}

TEST_F(JobStreamCommandsTest, AnOffsetBehindTheEndGivesNothing) {
  PutJob(v1::JOB_STATE_SUCCEEDED);
  coordinator_.AddLog("j-1", "w0", "one\n");
  const ClientResult past =
      Run({"job", "logs", "j-1", "--worker", "w0", "--offset", "99"});
  EXPECT_EQ(past.exit_code, 0);
  EXPECT_EQ(past.out, "[end of the log of j-1: SUCCEEDED]\n");
}

TEST_F(JobStreamCommandsTest, BadOffsetsAreRefused) {
  for (const char* offset : {"12", "w0=", "w0=-1", "w0=x", "=3"}) {
    const ClientResult result = Run({"job", "logs", "j-1", "--offset", offset});
    EXPECT_EQ(result.exit_code, 2) << offset;
    EXPECT_THAT(result.error, HasSubstr("WORKER=BYTES"));
  }
}

TEST_F(JobStreamCommandsTest, UnknownJobsAreNotFound) {
  EXPECT_EQ(Run({"job", "logs", "j-9"}).exit_code, 102);
  EXPECT_EQ(Run({"job", "events", "j-9", "-f"}).exit_code, 102);
}

// ---- events -----------------------------------------------------------------

TEST_F(JobStreamCommandsTest, EventsAreOneLineEach) {
  PutJob(v1::JOB_STATE_SUCCEEDED);
  AddEvent("submitted");
  AddEvent("succeeded");
  const ClientResult result = Run({"job", "events", "latest"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("1  submitted        about submitted\n"));
  EXPECT_THAT(result.out, EndsWith("2  succeeded        about succeeded\n"));
}

TEST_F(JobStreamCommandsTest, EventsResumeAndEnd) {
  PutJob(v1::JOB_STATE_SUCCEEDED);
  for (const char* kind : {"submitted", "running", "succeeded"}) AddEvent(kind);
  coordinator_.BreakNextReads(1);
  const std::vector<Json> documents = Documents(
      Run({"job", "events", "j-1", "-f", "--after", "1", "-o", "json"}));
  ASSERT_EQ(documents.size(), 3u);
  EXPECT_EQ(documents[0]["revision"], 2);
  EXPECT_EQ(documents[0]["event"], "running");
  EXPECT_EQ(documents[1]["revision"], 3);
  EXPECT_EQ(documents[2]["end"], true);
}

TEST_F(JobStreamCommandsTest, CtrlCLeavesTheEvents) {
  PutJob(v1::JOB_STATE_RUNNING);
  AddEvent("submitted");
  coordinator_.BreakNextReads(1);
  ClientProcess client(Words({"job", "events", "j-1", "-f"}));
  coordinator_.WaitForReads(2);
  client.Signal(SIGINT);
  const ClientResult result = client.Finish();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.error, HasSubstr("go on with --after 1"));
}

TEST_F(JobStreamCommandsTest, WithoutACoordinatorIsUnreachable) {
  for (const char* verb : {"logs", "events"}) {
    EXPECT_EQ(RunClient({"job", verb, "j-1", "-f", "--endpoint", "127.0.0.1:1"})
                  .exit_code,
              3);
  }
}

}  // namespace
}  // namespace stagecoach::client
