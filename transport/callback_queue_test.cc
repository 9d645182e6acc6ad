#include "transport/callback_queue.h"

#include <atomic>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::transport {
namespace {

using ::testing::ElementsAre;

TEST(CallbackQueueTest, RunsInOrderAlsoWhatCallbacksPush) {
  CallbackQueue queue;
  std::vector<int> order;
  queue.Push([&](bool) {
    order.push_back(1);
    queue.Push([&](bool) { order.push_back(3); });
  });
  queue.Push([&](bool) { order.push_back(2); });
  CallbackQueueUse use(&queue);
  EXPECT_TRUE(queue.RunAll());
  EXPECT_FALSE(queue.RunAll());
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(CallbackQueueTest, CloseRunsWhatIsLeftAsCancelled) {
  CallbackQueue queue;
  std::vector<bool> cancelled;
  queue.Push([&](bool was_cancelled) { cancelled.push_back(was_cancelled); });
  queue.Close();
  queue.Close();
  EXPECT_THAT(cancelled, ElementsAre(true));
  EXPECT_FALSE(queue.Enter());
}

TEST(CallbackQueueTest, ACallbackMayCloseTheQueue) {
  CallbackQueue queue;
  std::vector<bool> cancelled;
  queue.Push([&](bool) { queue.Close(); });
  queue.Push([&](bool was_cancelled) { cancelled.push_back(was_cancelled); });
  CallbackQueueUse use(&queue);
  EXPECT_TRUE(queue.RunAll());
  EXPECT_THAT(cancelled, ElementsAre(true));
}

TEST(CallbackQueueTest, CloseWaitsForAnotherThreadsCallback) {
  CallbackQueue queue;
  Mutex mu;
  CondVar changed;
  bool running = false;
  bool go_on = false;
  std::atomic<bool> finished{false};
  queue.Push([&](bool) {
    MutexLock lock(&mu);
    running = true;
    changed.NotifyAll();
    while (!go_on) changed.Wait(&mu);
    finished = true;
  });
  std::thread runner([&] {
    CallbackQueueUse use(&queue);
    queue.RunAll();
  });
  {
    MutexLock lock(&mu);
    while (!running) changed.Wait(&mu);
  }
  std::thread closer([&] {
    queue.Close();
    EXPECT_TRUE(finished);
  });
  {
    MutexLock lock(&mu);
    go_on = true;
    changed.NotifyAll();
  }
  closer.join();
  runner.join();
}

}  // namespace
}  // namespace stagecoach::transport
