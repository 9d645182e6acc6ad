#include "coordinator/ticker.h"

#include <atomic>

#include "base/notification.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

TEST(TickerTest, CallsAgainAndAgain) {
  std::atomic<int> count{0};
  Notification third;
  Ticker ticker(absl::Milliseconds(1), [&] {
    if (++count == 3) third.Notify();
  });
  third.WaitForNotification();
}

TEST(TickerTest, EndsAtOnceHoweverLongTheInterval) {
  std::atomic<int> count{0};
  {
    Ticker ticker(absl::InfiniteDuration(), [&] { ++count; });
  }
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace stagecoach::coordinator
