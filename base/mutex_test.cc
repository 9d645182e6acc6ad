#include "base/mutex.h"

#include <thread>
#include <vector>

#include "base/notification.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

TEST(MutexTest, LetsOneThreadInAtATime) {
  Mutex mu;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) {
        MutexLock lock(&mu);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 4000);
}

TEST(CondVarTest, WakesAWaiter) {
  Mutex mu;
  CondVar changed;
  bool ready = false;
  std::thread other([&] {
    MutexLock lock(&mu);
    ready = true;
    changed.NotifyOne();
  });
  {
    MutexLock lock(&mu);
    while (!ready) changed.Wait(&mu);
  }
  other.join();
  EXPECT_TRUE(ready);
}

TEST(CondVarTest, WaitForEndsWithoutANotification) {
  Mutex mu;
  CondVar never;
  MutexLock lock(&mu);
  // The loop is for wake-ups without a reason.
  while (never.WaitFor(&mu, absl::Milliseconds(1))) {
  }
  while (never.WaitFor(&mu, std::chrono::milliseconds(1))) {
  }
  EXPECT_FALSE(never.WaitFor(&mu, absl::Seconds(-1)));
}

TEST(CondVarTest, AnInfiniteTimeoutIsADeadlineInTheFuture) {
  EXPECT_GT(CondVar::DeadlineAfter(absl::InfiniteDuration()),
            std::chrono::steady_clock::now() + std::chrono::hours(1));
}

TEST(NotificationTest, IsSeenByAThreadThatWaits) {
  Notification notification;
  EXPECT_FALSE(notification.HasBeenNotified());
  std::thread other([&] { notification.Notify(); });
  notification.WaitForNotification();
  other.join();
  EXPECT_TRUE(notification.HasBeenNotified());
  EXPECT_TRUE(
      notification.WaitForNotificationWithTimeout(absl::ZeroDuration()));
}

TEST(NotificationTest, TimesOutWhenNothingHappens) {
  const Notification notification;
  EXPECT_FALSE(
      notification.WaitForNotificationWithTimeout(absl::Milliseconds(1)));
}

}  // namespace
}  // namespace stagecoach
