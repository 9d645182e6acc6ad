#include "rpc/server_stream.h"

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "gtest/gtest.h"

namespace stagecoach::rpc {
namespace {

const grpc::Status kCut(grpc::StatusCode::RESOURCE_EXHAUSTED, "too slow");

struct FakeStream {
  ServerStream<std::string> stream{
      [this](const std::string* message) { started.push_back(*message); },
      [this](const grpc::Status& status) {
        EXPECT_FALSE(finished.has_value());
        finished = status.error_code();
      },
      3};
  std::vector<std::string> started;
  std::optional<grpc::StatusCode> finished;
};

TEST(ServerStreamTest, FinishesAtOnceWhenNothingIsBeingWritten) {
  FakeStream fake;
  fake.stream.Finish(kCut);
  EXPECT_EQ(fake.finished, grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(fake.stream.Write("a").code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(fake.started.empty());
}

TEST(ServerStreamTest, FinishNeverOverlapsAWrite) {
  FakeStream fake;
  EXPECT_TRUE(fake.stream.Write("a").ok());
  EXPECT_TRUE(fake.stream.Write("b").ok());
  fake.stream.Finish(kCut);
  EXPECT_FALSE(fake.finished.has_value());
  fake.stream.OnWriteDone(true);
  EXPECT_EQ(fake.finished, grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(fake.started, std::vector<std::string>({"a"}));
}

TEST(ServerStreamTest, WritesEverythingFirstWhenAsked) {
  FakeStream fake;
  EXPECT_TRUE(fake.stream.Write("a").ok());
  EXPECT_TRUE(fake.stream.Write("b").ok());
  fake.stream.FinishAfterWrites(grpc::Status::OK);
  EXPECT_EQ(fake.stream.Write("c").code(), absl::StatusCode::kUnavailable);
  fake.stream.OnWriteDone(true);
  EXPECT_FALSE(fake.finished.has_value());
  fake.stream.OnWriteDone(true);
  EXPECT_EQ(fake.finished, grpc::StatusCode::OK);
  EXPECT_EQ(fake.started, std::vector<std::string>({"a", "b"}));
}

TEST(ServerStreamTest, ABrokenStreamStillFinishesOnce) {
  FakeStream fake;
  EXPECT_TRUE(fake.stream.Write("a").ok());
  EXPECT_TRUE(fake.stream.Write("b").ok());
  fake.stream.FinishAfterWrites(grpc::Status::OK);
  fake.stream.OnWriteDone(false);
  EXPECT_EQ(fake.finished, grpc::StatusCode::OK);
  fake.stream.Finish(kCut);
  EXPECT_EQ(fake.finished, grpc::StatusCode::OK);
}

TEST(ServerStreamTest, TheFirstStatusCounts) {
  FakeStream fake;
  EXPECT_TRUE(fake.stream.Write("a").ok());
  fake.stream.Finish(kCut);
  fake.stream.Finish(grpc::Status::CANCELLED);
  fake.stream.OnWriteDone(true);
  EXPECT_EQ(fake.finished, grpc::StatusCode::RESOURCE_EXHAUSTED);
}

// One thread writes, one ends writes, one finishes at any moment: exactly one
// finish, with no write under way.
TEST(ServerStreamTest, FinishRacesWithWritesHarmlessly) {
  for (int round = 0; round < 200; ++round) {
    Mutex mu;
    CondVar changed;
    bool writing = false;
    int finishes = 0;
    ServerStream<int> stream(
        [&](const int*) {
          MutexLock lock(&mu);
          EXPECT_EQ(finishes, 0);
          writing = true;
          changed.NotifyAll();
        },
        [&](const grpc::Status&) {
          MutexLock lock(&mu);
          EXPECT_FALSE(writing);
          ++finishes;
          changed.NotifyAll();
        },
        1000);
    std::thread writer([&] {
      for (int i = 0; i < 20; ++i) {
        if (!stream.Write(i).ok()) return;
      }
    });
    std::thread ender([&] {
      while (true) {
        {
          MutexLock lock(&mu);
          while (!writing && finishes == 0) changed.Wait(&mu);
          if (finishes > 0) return;
          writing = false;
        }
        stream.OnWriteDone(true);
      }
    });
    std::thread finisher([&] { stream.Finish(kCut); });
    writer.join();
    finisher.join();
    ender.join();
    MutexLock lock(&mu);
    EXPECT_EQ(finishes, 1);
  }
}

}  // namespace
}  // namespace stagecoach::rpc
