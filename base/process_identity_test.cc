#include "base/process_identity.h"

#include <signal.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/process.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);

ChildProcess Sleeper() {
  SpawnOptions options;
  options.program = "/bin/sleep";
  options.arguments = {"1000"};
  options.die_with_parent = false;
  return ChildProcess::Spawn(options).value();
}

TEST(ProcessIdentityTest, OurselvesRun) {
  const ProcessIdentity self = IdentityOf(getpid()).value();
  EXPECT_GT(self.start_ticks, 0);
  EXPECT_FALSE(self.boot_id.empty());
  EXPECT_TRUE(IsRunning(self));
}

TEST(ProcessIdentityTest, AnotherProcessOfTheSameNumberIsNotIt) {
  ProcessIdentity other = IdentityOf(getpid()).value();
  other.start_ticks -= 1;
  EXPECT_FALSE(IsRunning(other));
  EXPECT_TRUE(absl::IsNotFound(ForeignProcess::Open(other).status()));
  other = IdentityOf(getpid()).value();
  other.boot_id = "of yesterday";
  EXPECT_FALSE(IsRunning(other));
}

TEST(ProcessIdentityTest, ASignalEndsItAndOnlyItsRemainsAreLeft) {
  ChildProcess child = Sleeper();
  const ProcessIdentity identity = IdentityOf(child.pid()).value();
  ForeignProcess process = ForeignProcess::Open(identity).value();
  EXPECT_FALSE(process.WaitForEnd(absl::ZeroDuration()));
  EXPECT_TRUE(process.Signal(SIGTERM).ok());
  EXPECT_TRUE(process.WaitForEnd(kPatience));
  // Not reaped yet: a zombie does not run.
  EXPECT_FALSE(IsRunning(identity));
  EXPECT_EQ(*child.Wait(kPatience), 128 + SIGTERM);
  EXPECT_TRUE(absl::IsNotFound(IdentityOf(identity.pid).status()));
  EXPECT_TRUE(absl::IsNotFound(process.Signal(SIGTERM)));
}

TEST(ProcessIdentityTest, AReleasedChildLivesOn) {
  ProcessIdentity identity;
  {
    ChildProcess child = Sleeper();
    identity = IdentityOf(child.pid()).value();
    EXPECT_EQ(child.Release(), identity.pid);
  }
  ASSERT_TRUE(IsRunning(identity));
  ForeignProcess process = ForeignProcess::Open(identity).value();
  EXPECT_TRUE(process.Signal(SIGKILL).ok());
  EXPECT_TRUE(process.WaitForEnd(kPatience));
}

}  // namespace
}  // namespace stagecoach
