#include "rpc/stream_writer.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "gtest/gtest.h"

namespace stagecoach::rpc {
namespace {

// A stream whose writes end when the test says.
struct FakeStream {
  explicit FakeStream(size_t limit = 3)
      : writer(
            [this](const std::string* message) {
              current = message;
              started.push_back(*message);
            },
            limit) {}
  void End(bool ok = true) {
    current = nullptr;
    writer.Done(ok);
  }

  const std::string* current = nullptr;
  std::vector<std::string> started;
  StreamWriter<std::string> writer;
};

TEST(StreamWriterTest, HasOneWriteOutstandingAndKeepsTheOrder) {
  FakeStream stream;
  EXPECT_TRUE(stream.writer.Idle());
  EXPECT_TRUE(stream.writer.Write("a").ok());
  EXPECT_TRUE(stream.writer.Write("b").ok());
  EXPECT_TRUE(stream.writer.Write("c").ok());
  EXPECT_EQ(stream.started, std::vector<std::string>({"a"}));
  EXPECT_FALSE(stream.writer.Idle());
  stream.End();
  EXPECT_EQ(stream.started, std::vector<std::string>({"a", "b"}));
  stream.End();
  stream.End();
  EXPECT_EQ(stream.started, std::vector<std::string>({"a", "b", "c"}));
  EXPECT_TRUE(stream.writer.Idle());
}

TEST(StreamWriterTest, MessageStaysAliveUntilItsWriteEnds) {
  FakeStream stream;
  const std::string text(1000, 'x');
  EXPECT_TRUE(stream.writer.Write(text).ok());
  EXPECT_TRUE(stream.writer.Write("b").ok());
  stream.writer.Close();
  EXPECT_EQ(*stream.current, text);
}

TEST(StreamWriterTest, SlowReaderIsToldApart) {
  FakeStream stream(2);
  EXPECT_TRUE(stream.writer.Write("a").ok());
  EXPECT_TRUE(stream.writer.Write("b").ok());
  EXPECT_EQ(stream.writer.Write("c").code(),
            absl::StatusCode::kResourceExhausted);
  stream.End();
  EXPECT_TRUE(stream.writer.Write("d").ok());
  stream.End();
  EXPECT_EQ(stream.started, std::vector<std::string>({"a", "b", "d"}));
}

TEST(StreamWriterTest, WritesNothingAfterClose) {
  FakeStream stream;
  EXPECT_TRUE(stream.writer.Write("a").ok());
  EXPECT_TRUE(stream.writer.Write("b").ok());
  stream.writer.Close();
  EXPECT_EQ(stream.writer.Write("c").code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(stream.writer.Idle());
  stream.End();
  EXPECT_TRUE(stream.writer.Idle());
  EXPECT_EQ(stream.started, std::vector<std::string>({"a"}));
}

TEST(StreamWriterTest, FailedWriteClosesAndDropsTheRest) {
  FakeStream stream;
  EXPECT_TRUE(stream.writer.Write("a").ok());
  EXPECT_TRUE(stream.writer.Write("b").ok());
  stream.End(false);
  EXPECT_TRUE(stream.writer.Idle());
  EXPECT_EQ(stream.writer.Write("c").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(stream.started, std::vector<std::string>({"a"}));
}

// Four threads write, a fifth ends the writes as a stream would.
TEST(StreamWriterTest, TakesWritesFromManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  Mutex mu;
  CondVar changed;
  bool outstanding = false;
  int started = 0;
  std::vector<int> last(kThreads, -1);
  StreamWriter<std::pair<int, int>> writer(
      [&](const std::pair<int, int>* message) {
        MutexLock lock(&mu);
        EXPECT_FALSE(outstanding);
        outstanding = true;
        ++started;
        EXPECT_EQ(last[message->first] + 1, message->second);
        last[message->first] = message->second;
        changed.NotifyAll();
      },
      kThreads * kEach);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&writer, thread] {
      for (int i = 0; i < kEach; ++i) {
        EXPECT_TRUE(writer.Write({thread, i}).ok());
      }
    });
  }
  for (int done = 0; done < kThreads * kEach; ++done) {
    {
      MutexLock lock(&mu);
      while (!outstanding) changed.Wait(&mu);
      outstanding = false;
    }
    writer.Done(true);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(writer.Idle());
  EXPECT_EQ(started, kThreads * kEach);
}

}  // namespace
}  // namespace stagecoach::rpc
