#include "base/failpoint.h"

#include <signal.h>

#include <cstdlib>

#include "gtest/gtest.h"

namespace stagecoach {
namespace {

TEST(FailpointDeathTest, KillsTheProcessTheNthTime) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("STAGECOACH_FAILPOINT", "worker.commit@2", 1);
        ReachFailpoint("worker.applied");
        ReachFailpoint("worker.commit");
        setenv("STAGECOACH_FAILPOINT", "", 1);  // read once
        ReachFailpoint("worker.commit");
        std::_Exit(0);
      },
      ::testing::KilledBySignal(SIGKILL), "");
}

TEST(FailpointDeathTest, UnknownNamesAreMistakes) {
  EXPECT_DEATH(ReachFailpoint("worker.nowhere"), "worker.nowhere");
}

TEST(FailpointTest, DoesNothingUnasked) {
  ReachFailpoint("worker.commit");
  SC_FAILPOINT("worker.commit");
}

}  // namespace
}  // namespace stagecoach
