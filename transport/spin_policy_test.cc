#include "transport/spin_policy.h"

#include "gtest/gtest.h"

namespace stagecoach::transport {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

TEST(SpinPolicyTest, TheFirstWaitSleeps) {
  EXPECT_EQ(SpinPolicy().Budget(), SpinPolicy::Duration::zero());
}

TEST(SpinPolicyTest, AfterABriefWaitTheNextSpinsForALittle) {
  SpinPolicy policy;
  policy.Note(microseconds(20));
  EXPECT_EQ(policy.Budget(), SpinPolicy::kSpin);
  policy.Note(SpinPolicy::kBrief);
  EXPECT_EQ(policy.Budget(), SpinPolicy::kSpin);
}

// Idle, a waiter spins once at most.
TEST(SpinPolicyTest, AfterALongWaitTheNextSleeps) {
  SpinPolicy policy;
  policy.Note(microseconds(20));
  policy.Note(SpinPolicy::kBrief + microseconds(1));
  EXPECT_EQ(policy.Budget(), SpinPolicy::Duration::zero());
  policy.Note(seconds(60));
  EXPECT_EQ(policy.Budget(), SpinPolicy::Duration::zero());
}

}  // namespace
}  // namespace stagecoach::transport
