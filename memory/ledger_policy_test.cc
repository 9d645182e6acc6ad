// Rule 7: release = "sent" and "never", and gradients, which know only "ack".
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "memory/ledger.h"
#include "memory/ledger_test_util.h"

namespace stagecoach::memory {
namespace {

// ---- sent ------------------------------------------------------------------

class SentRuleTest : public ::testing::Test, protected LedgerBed {
 protected:
  SentRuleTest() : LedgerBed(ReleaseRule::kSent) {}
  const TransferKey key_ = ActivationKey(2, 5);
};

TEST_F(SentRuleTest, ReleasesAtLocalCompletion) {
  Send(key_);
  EXPECT_EQ(allocated_bytes(), 100);
  ledger.CompleteLocally(key_);
  EXPECT_EQ(allocated_bytes(), 0);
  EXPECT_EQ(Stage(2).released_bytes, 100);
  EXPECT_EQ(Stage(2).pending_bytes, 0);
  EXPECT_EQ(Stage(2).held_bytes, 0);
}

TEST_F(SentRuleTest, StillAwaitsTheAcknowledgement) {
  Send(key_);
  ledger.CompleteLocally(key_);
  clock.Advance(absl::Seconds(2));
  EXPECT_FALSE(ledger.Empty());
  EXPECT_EQ(ledger.InBudget("w1", Direction::kActivation), 1);
  EXPECT_EQ(ledger.Stats().pending_transfers, 1);
  EXPECT_EQ(ledger.Stats().pending_bytes, 100);
  EXPECT_EQ(ledger.Stats().oldest_pending, absl::Seconds(2));
  const std::vector<HeldOutput> held = ledger.Held();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].state, EntryState::kReleased);

  EXPECT_EQ(ledger.Acknowledge(key_), AckOutcome::kAccepted);
  EXPECT_TRUE(ledger.Empty());
  EXPECT_EQ(ledger.Stats().pending_transfers, 0);
  EXPECT_TRUE(ledger.Held().empty());
  EXPECT_EQ(ledger.Acknowledge(key_), AckOutcome::kDuplicate);
  EXPECT_EQ(Stage(2).released_bytes, 100);
}

TEST_F(SentRuleTest, AcknowledgementAloneDoesNotRelease) {
  Send(key_);
  EXPECT_EQ(ledger.Acknowledge(key_), AckOutcome::kAccepted);
  EXPECT_EQ(allocated_bytes(), 100);
  EXPECT_FALSE(ledger.Empty());
  ledger.CompleteLocally(key_);
  EXPECT_EQ(allocated_bytes(), 0);
  EXPECT_TRUE(ledger.Empty());
}

TEST_F(SentRuleTest, RetainedOutputShowsItsState) {
  const std::shared_ptr<void> keeper = SendAndKeep(key_);
  ledger.CompleteLocally(key_);
  ASSERT_EQ(ledger.Held().size(), 1u);
  EXPECT_EQ(ledger.Held()[0].state, EntryState::kRetained);
  EXPECT_EQ(Stage(2).retained_bytes, 100);
}

TEST_F(SentRuleTest, SecondCompletionReleasesNothingTwice) {
  Send(key_);
  ledger.CompleteLocally(key_);
  ledger.CompleteLocally(key_);
  EXPECT_EQ(Stage(2).released_bytes, 100);
}

TEST_F(SentRuleTest, DiscardingWhatIsReleasedEndsOnlyTheWaiting) {
  Send(key_);
  ledger.CompleteLocally(key_);
  ledger.DiscardAll();
  EXPECT_EQ(Stage(2).released_bytes, 100);
  EXPECT_EQ(Stage(2).discarded_bytes, 0);
  EXPECT_TRUE(ledger.Empty());
  EXPECT_EQ(ledger.Acknowledge(key_), AckOutcome::kStaleEpoch);
}

TEST_F(SentRuleTest, AcknowledgementDuringTheDropEndsTheEntryOnce) {
  Send(key_, 100,
       [&] { EXPECT_EQ(ledger.Acknowledge(key_), AckOutcome::kAccepted); });
  ledger.CompleteLocally(key_);
  EXPECT_EQ(Stage(2).released_bytes, 100);
  EXPECT_TRUE(ledger.Empty());
  EXPECT_EQ(ledger.Acknowledge(key_), AckOutcome::kDuplicate);
}

TEST_F(SentRuleTest, DiscardDuringTheDropLeavesNothingWaiting) {
  Send(key_, 100, [&] { ledger.DiscardAll(); });
  ledger.CompleteLocally(key_);
  EXPECT_EQ(Stage(2).released_bytes, 100);
  EXPECT_TRUE(ledger.Empty());
}

TEST_F(SentRuleTest, GradientsAreReleasedByAcknowledgement) {
  Send(GradientKey(2, 5));
  ledger.CompleteLocally(GradientKey(2, 5));
  EXPECT_EQ(allocated_bytes(), 100);
  ledger.Acknowledge(GradientKey(2, 5));
  EXPECT_EQ(allocated_bytes(), 0);
}

// ---- never -----------------------------------------------------------------

class NeverRuleTest : public ::testing::Test, protected LedgerBed {
 protected:
  NeverRuleTest() : LedgerBed(ReleaseRule::kNever) {}
  void Backward(const TransferKey& key) {
    ledger.BackwardDone(key.step, key.stage, key.microbatch);
  }
  const TransferKey key_ = ActivationKey(2, 5);
};

TEST_F(NeverRuleTest, KeepsBytesUntilTheBackward) {
  Send(key_);
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  EXPECT_EQ(allocated_bytes(), 100);
  EXPECT_EQ(Stage(2).held_bytes, 100);
  EXPECT_EQ(Stage(2).pending_bytes, 100);
  EXPECT_EQ(Stage(2).retained_bytes, 0);
  Backward(key_);
  EXPECT_EQ(allocated_bytes(), 0);
  EXPECT_EQ(Stage(2).held_bytes, 0);
  EXPECT_EQ(Stage(2).pending_bytes, 0);
}

TEST_F(NeverRuleTest, KeptBytesCountAsRetainedByPolicy) {
  Send(key_);
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  Backward(key_);
  const StageLedgerStats stage = Stage(2);
  EXPECT_EQ(stage.retained_bytes, 100);
  EXPECT_EQ(stage.released_bytes, 0);
  ASSERT_EQ(stage.retained_by.size(), 1u);
  EXPECT_EQ(stage.retained_by[0].op, "policy");
  EXPECT_EQ(stage.retained_by[0].bytes, 100);
  EXPECT_EQ(ledger.Stats().retained_now_bytes, 0);
  EXPECT_TRUE(ledger.TakeUnnamed().empty());
}

TEST_F(NeverRuleTest, AcknowledgedEntryNeitherPendsNorBlocks) {
  Send(key_);
  ledger.CompleteLocally(key_);
  EXPECT_FALSE(ledger.Empty());
  EXPECT_EQ(ledger.InBudget("w1", Direction::kActivation), 1);
  ledger.Acknowledge(key_);
  EXPECT_TRUE(ledger.Empty());
  EXPECT_EQ(ledger.InBudget("w1", Direction::kActivation), 0);
  EXPECT_EQ(ledger.Stats().pending_transfers, 0);
  EXPECT_TRUE(ledger.Held().empty());
  EXPECT_EQ(ledger.Acknowledge(key_), AckOutcome::kDuplicate);
}

TEST_F(NeverRuleTest, AcknowledgedEntryBlocksWhileTheTransportHasIt) {
  Send(key_);
  ledger.Acknowledge(key_);
  EXPECT_FALSE(ledger.Empty());
}

TEST_F(NeverRuleTest, BackwardDoesNotFreeWhatAPeerMayStillRead) {
  Send(key_);
  Backward(key_);
  EXPECT_EQ(allocated_bytes(), 100);
  ledger.CompleteLocally(key_);
  EXPECT_EQ(allocated_bytes(), 100);
  EXPECT_EQ(Stage(2).held_bytes, 100);
  ledger.Acknowledge(key_);
  EXPECT_EQ(allocated_bytes(), 0);
  EXPECT_EQ(Stage(2).retained_bytes, 100);
}

TEST_F(NeverRuleTest, AnotherMicrobatchsBackwardFreesNothing) {
  Send(key_);
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  Backward(ActivationKey(2, 6));
  Backward(ActivationKey(3, 5));
  Backward(ActivationKey(2, 5, /*step=*/1));
  EXPECT_EQ(allocated_bytes(), 100);
}

TEST_F(NeverRuleTest, OutputKeptPastItsBackwardIsSeenInRetainedNow) {
  std::shared_ptr<void> keeper = SendAndKeep(key_);
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  Backward(key_);
  EXPECT_EQ(ledger.Stats().retained_now_bytes, 100);
  EXPECT_EQ(Stage(2).retained_by[0].op, "policy");
  keeper.reset();
  EXPECT_EQ(ledger.Stats().retained_now_bytes, 0);
}

TEST_F(NeverRuleTest, DiscardCountsWhatWaitsForItsBackward) {
  Send(key_);
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  ledger.DiscardAll();
  EXPECT_EQ(Stage(2).discarded_bytes, 100);
  EXPECT_EQ(allocated_bytes(), 0);
  EXPECT_EQ(ledger.Acknowledge(key_), AckOutcome::kDuplicate);
}

TEST_F(NeverRuleTest, GradientsAreReleasedByAcknowledgement) {
  Send(GradientKey(2, 5));
  ledger.CompleteLocally(GradientKey(2, 5));
  Backward(GradientKey(2, 5));
  EXPECT_EQ(allocated_bytes(), 100);
  ledger.Acknowledge(GradientKey(2, 5));
  EXPECT_EQ(allocated_bytes(), 0);
}

// ---- The acceptance formula on the two schedules one can do by hand --------

// One worker's sends of one step; every transfer is acknowledged at once.
class HeldFormulaTest : public ::testing::TestWithParam<ReleaseRule> {
 protected:
  void Forward(int microbatch) {
    bed_.Send(ActivationKey(0, microbatch));
    bed_.ledger.CompleteLocally(ActivationKey(0, microbatch));
    bed_.ledger.Acknowledge(ActivationKey(0, microbatch));
  }
  void Backward(int microbatch) {
    bed_.ledger.BackwardDone(StepIndex(0), StageIndex(0),
                             MicrobatchIndex(microbatch));
  }
  int64_t HeldOutputs() const {
    return bed_.ledger.Stats().held_peak_bytes / 100;
  }
  bool never() const { return GetParam() == ReleaseRule::kNever; }

  LedgerBed bed_{GetParam()};
};

TEST_P(HeldFormulaTest, GpipeHoldsMWithNeverAndOneWithPromptAcknowledgement) {
  for (int i = 0; i < 16; ++i) Forward(i);
  for (int i = 0; i < 16; ++i) Backward(i);
  EXPECT_EQ(HeldOutputs(), never() ? 16 : 1);
  EXPECT_EQ(bed_.Stage(0).sent_bytes, 1600);
  EXPECT_EQ(bed_.Stage(0).retained_bytes, never() ? 1600 : 0);
  EXPECT_EQ(bed_.Stage(0).pending_bytes, 0);
}

TEST_P(HeldFormulaTest, FirstStageOf1F1BHoldsPWithNever) {
  constexpr int kWorkers = 4;
  for (int i = 0; i < kWorkers - 1; ++i) Forward(i);
  for (int i = kWorkers - 1; i < 16; ++i) {
    Forward(i);
    Backward(i - (kWorkers - 1));
  }
  for (int i = 16 - (kWorkers - 1); i < 16; ++i) Backward(i);
  EXPECT_EQ(HeldOutputs(), never() ? kWorkers : 1);
  EXPECT_EQ(bed_.Stage(0).held_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Rules, HeldFormulaTest, ::testing::ValuesIn(kAllRules),
                         RuleTestName);

}  // namespace
}  // namespace stagecoach::memory
