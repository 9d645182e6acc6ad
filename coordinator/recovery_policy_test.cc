#include "coordinator/recovery_policy.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "coordinator/test_spec.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

JobRecord JobWith(int64_t max_failures, int64_t no_progress,
                  const std::vector<int64_t>& failed_after, int64_t steps) {
  JobRecord job;
  job.spec = TinySpec(2);
  job.spec.mutable_recovery()->set_max_failures(max_failures);
  job.spec.mutable_recovery()->set_no_progress(no_progress);
  for (const int64_t before : failed_after) {
    job.recoveries.emplace_back();
    job.recoveries.back().steps_before = before;
  }
  job.steps.resize(static_cast<size_t>(steps));
  return job;
}

FailureCause Lost(FailureKind kind = FailureKind::kWorkerLost) {
  FailureCause cause;
  cause.kind = kind;
  return cause;
}

TEST(RecoveryPolicyTest, OnlyLossesAreSurvived) {
  const JobRecord job = JobWith(3, 3, {}, 5);
  EXPECT_TRUE(DecideRecovery(job, Lost()).recover);
  for (const FailureKind kind : {FailureKind::kInvalid, FailureKind::kInternal,
                                 FailureKind::kOutOfMemory}) {
    const RecoveryDecision decision = DecideRecovery(job, Lost(kind));
    EXPECT_FALSE(decision.recover);
    EXPECT_EQ(decision.words, "");
  }
}

TEST(RecoveryPolicyTest, MaxFailuresIsTheNumberOfThoseSurvived) {
  EXPECT_FALSE(DecideRecovery(JobWith(0, 3, {}, 5), Lost()).recover);
  EXPECT_EQ(DecideRecovery(JobWith(0, 3, {}, 5), Lost()).words, "");
  EXPECT_TRUE(DecideRecovery(JobWith(2, 3, {1}, 5), Lost()).recover);
  EXPECT_EQ(DecideRecovery(JobWith(2, 3, {1}, 5), Lost()).words,
            "2 of at most 2");
  const auto last = DecideRecovery(JobWith(2, 3, {1, 3}, 5), Lost());
  EXPECT_FALSE(last.recover);
  EXPECT_TRUE(absl::StrContains(last.words, "max_failures = 2 is used up"));
}

TEST(RecoveryPolicyTest, ProgressIsAStepThatWasNeverCommittedBefore) {
  EXPECT_TRUE(DecideRecovery(JobWith(99, 2, {}, 0), Lost()).recover);
  EXPECT_FALSE(DecideRecovery(JobWith(99, 2, {0}, 0), Lost()).recover);
  EXPECT_TRUE(DecideRecovery(JobWith(99, 2, {0}, 1), Lost()).recover);
  // Back to step 4, and not beyond 7.
  EXPECT_FALSE(DecideRecovery(JobWith(99, 3, {7, 5}, 6), Lost()).recover);
  EXPECT_TRUE(DecideRecovery(JobWith(99, 3, {7, 5}, 8), Lost()).recover);
  // An earlier bad time does not count any more.
  EXPECT_TRUE(
      DecideRecovery(JobWith(99, 3, {2, 2, 5, 5, 9, 9}, 10), Lost()).recover);
  EXPECT_TRUE(absl::StrContains(
      DecideRecovery(JobWith(99, 3, {7, 5}, 6), Lost()).words,
      "it failed 3 times in a row before step 7 was committed"));
}

// A spec from before the key has 0 there.
TEST(RecoveryPolicyTest, WithoutTheKeyItsDefaultCounts) {
  EXPECT_TRUE(DecideRecovery(JobWith(99, 0, {4}, 4), Lost()).recover);
  EXPECT_FALSE(DecideRecovery(JobWith(99, 0, {4, 4}, 4), Lost()).recover);
}

TEST(RecoveryPolicyTest, AWorkerThatDrainedIsNoFailure) {
  JobRecord job = JobWith(1, 2, {4, 4, 4}, 4);
  for (RecoveryRecord& recovery : job.recoveries) {
    recovery.cause.kind = FailureKind::kDrained;
  }
  const RecoveryDecision decision = DecideRecovery(job, Lost());
  EXPECT_TRUE(decision.recover);
  EXPECT_EQ(decision.words, "1 of at most 1");
}

}  // namespace
}  // namespace stagecoach::coordinator
