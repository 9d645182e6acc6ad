#include "base/clock.h"

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

TEST(ClockTest, RealClockNeverGoesBack) {
  const absl::Time first = Clock::Real()->Now();
  EXPECT_LE(first, Clock::Real()->Now());
}

TEST(ClockTest, WallTimeIsTheCalendars) {
  const absl::Time before = absl::Now();
  const absl::Time wall = Clock::Real()->WallNow();
  EXPECT_LE(before, wall);
  EXPECT_LE(wall, absl::Now());
}

TEST(SimulatedClockTest, MovesOnlyWhenTold) {
  SimulatedClock clock(absl::FromUnixSeconds(100));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(100));
  clock.Advance(absl::Milliseconds(1500));
  EXPECT_EQ(clock.Now(), absl::FromUnixMillis(101500));
}

}  // namespace
}  // namespace stagecoach
