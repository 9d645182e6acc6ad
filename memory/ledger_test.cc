// The ledger with release = "ack": life of an entry, acknowledgements,
// figures. What happens to bytes that somebody keeps: ledger_retention_test.
#include "memory/ledger.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "memory/ledger_test_util.h"

namespace stagecoach::memory {
namespace {

class LedgerTest : public ::testing::Test, protected LedgerBed {
 protected:
  const TransferKey key_ = ActivationKey(2, 5);
};

// ---- Rules 1 and 2: who owns the bytes, and until when ---------------------

TEST_F(LedgerTest, OwnsTheBytesAloneUntilTheyAreReleased) {
  Ledger::Output output = MakeOutput(&allocator, 100);
  const std::weak_ptr<void> bytes = output.payload;
  ASSERT_TRUE(ledger.Produce(key_, {std::move(output)}, "w1").ok());
  EXPECT_EQ(bytes.use_count(), 1);
  ASSERT_TRUE(ledger.StartSending(key_).ok());
  EXPECT_EQ(bytes.use_count(), 1);
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  EXPECT_TRUE(bytes.expired());
}

TEST_F(LedgerTest, KeepsBytesUntilThePeerAcknowledges) {
  Send(key_);
  ledger.CompleteLocally(key_);
  EXPECT_EQ(allocated_bytes(), 100);
  EXPECT_EQ(ledger.Acknowledge(key_), AckOutcome::kAccepted);
  EXPECT_EQ(allocated_bytes(), 0);
  EXPECT_EQ(Stage(2).released_bytes, 100);
}

TEST_F(LedgerTest, KeepsBytesUntilTheTransportIsDone) {
  Send(key_);
  EXPECT_EQ(ledger.Acknowledge(key_), AckOutcome::kAccepted);
  EXPECT_EQ(allocated_bytes(), 100);
  EXPECT_FALSE(ledger.Empty());
  ledger.CompleteLocally(key_);
  EXPECT_EQ(allocated_bytes(), 0);
  EXPECT_EQ(Stage(2).released_bytes, 100);
  EXPECT_TRUE(ledger.Empty());
}

TEST_F(LedgerTest, NoTimeFreesWhatAPeerMayStillRead) {
  Send(key_);
  ledger.CompleteLocally(key_);
  clock.Advance(absl::Hours(24));
  (void)ledger.Stats();
  (void)ledger.Held();
  ledger.BackwardDone(key_.step, key_.stage, key_.microbatch);
  EXPECT_EQ(allocated_bytes(), 100);
  EXPECT_EQ(Stage(2).pending_bytes, 100);
}

TEST_F(LedgerTest, SecondLocalCompletionDoesNotReplaceTheAcknowledgement) {
  Send(key_);
  ledger.CompleteLocally(key_);
  ledger.CompleteLocally(key_);
  EXPECT_EQ(allocated_bytes(), 100);
}

TEST_F(LedgerTest, CompletionOfWhatWasNeverSentChangesNothing) {
  Produce(key_);
  ledger.CompleteLocally(key_);
  ASSERT_TRUE(ledger.StartSending(key_).ok());
  ledger.Acknowledge(key_);
  EXPECT_EQ(allocated_bytes(), 100);
  ledger.CompleteLocally(ActivationKey(9, 9));
  EXPECT_EQ(Stage(2).pending_bytes, 100);
}

TEST_F(LedgerTest, AllTensorsOfATransferGoTogether) {
  ASSERT_TRUE(
      ledger
          .Produce(key_,
                   {MakeOutput(&allocator, 10), MakeOutput(&allocator, 20)},
                   "w1")
          .ok());
  ASSERT_TRUE(ledger.StartSending(key_).ok());
  ledger.CompleteLocally(key_);
  EXPECT_EQ(Stage(2).sent_bytes, 30);
  ledger.Acknowledge(key_);
  EXPECT_EQ(Stage(2).released_bytes, 30);
  EXPECT_EQ(allocated_bytes(), 0);
}

// ---- Refused calls ---------------------------------------------------------

TEST_F(LedgerTest, RefusesAKeyThatIsInTheLedger) {
  Produce(key_);
  const absl::Status status =
      ledger.Produce(key_, {MakeOutput(&allocator, 7)}, "w1");
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(status.message().find("stage 2, step 0, microbatch 5"),
            std::string::npos);
  EXPECT_EQ(allocated_bytes(), 100);
}

TEST_F(LedgerTest, RefusesASecondLifeOfAKey) {
  Send(key_);
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  EXPECT_EQ(ledger.Produce(key_, {}, "w1").code(),
            absl::StatusCode::kAlreadyExists);
}

TEST_F(LedgerTest, RefusesAnotherEpochsOutput) {
  TransferKey other = key_;
  other.epoch = Epoch(kTestEpoch.value() + 1);
  EXPECT_EQ(ledger.Produce(other, {}, "w1").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(ledger.Empty());
}

TEST_F(LedgerTest, SendsOnlyWhatIsProduced) {
  EXPECT_EQ(ledger.StartSending(key_).code(), absl::StatusCode::kNotFound);
  Send(key_);
  EXPECT_EQ(ledger.StartSending(key_).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Stage(2).sent_bytes, 100);
}

// ---- Rule 3: acknowledgements ----------------------------------------------

class AcknowledgementTest : public LedgerTest {
 protected:
  // Nothing but the counters may change.
  void ExpectNothingChangesBy(const TransferKey& key, AckOutcome outcome) {
    const StageLedgerStats before = Stage(2);
    const int64_t bytes = allocated_bytes();
    const int64_t pending = ledger.Stats().pending_transfers;
    EXPECT_EQ(ledger.Acknowledge(key), outcome);
    EXPECT_EQ(Stage(2).released_bytes, before.released_bytes);
    EXPECT_EQ(Stage(2).pending_bytes, before.pending_bytes);
    EXPECT_EQ(Stage(2).held_bytes, before.held_bytes);
    EXPECT_EQ(ledger.Stats().pending_transfers, pending);
    EXPECT_EQ(allocated_bytes(), bytes);
  }
  AckCounters counters() const { return ledger.Stats().acknowledgements; }
};

TEST_F(AcknowledgementTest, DuplicateBeforeCompletionChangesNothing) {
  Send(key_);
  ledger.Acknowledge(key_);
  ExpectNothingChangesBy(key_, AckOutcome::kDuplicate);
  EXPECT_EQ(counters().accepted, 1);
  EXPECT_EQ(counters().duplicate, 1);
}

TEST_F(AcknowledgementTest, DuplicateAfterTheReleaseChangesNothing) {
  Send(key_);
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  ExpectNothingChangesBy(key_, AckOutcome::kDuplicate);
  ExpectNothingChangesBy(key_, AckOutcome::kDuplicate);
  EXPECT_EQ(counters().accepted, 1);
  EXPECT_EQ(counters().duplicate, 2);
}

TEST_F(AcknowledgementTest, DuplicateIsToldFromUnknownManyStepsLater) {
  for (int64_t step = 0; step < 1000; ++step) {
    const TransferKey key = ActivationKey(2, 5, step);
    Send(key);
    ledger.CompleteLocally(key);
    ledger.Acknowledge(key);
  }
  ExpectNothingChangesBy(ActivationKey(2, 5, 0), AckOutcome::kDuplicate);
  ExpectNothingChangesBy(ActivationKey(2, 6, 0), AckOutcome::kUnknown);
}

TEST_F(AcknowledgementTest, OldEpochChangesNothing) {
  Send(key_);
  ledger.CompleteLocally(key_);
  TransferKey old = key_;
  old.epoch = Epoch(kTestEpoch.value() - 1);
  ExpectNothingChangesBy(old, AckOutcome::kStaleEpoch);
  EXPECT_EQ(counters().stale_epoch, 1);
  EXPECT_EQ(counters().accepted, 0);
}

TEST_F(AcknowledgementTest, UnknownKeyChangesNothing) {
  Send(key_);
  ledger.CompleteLocally(key_);
  ExpectNothingChangesBy(ActivationKey(2, 6), AckOutcome::kUnknown);
  ExpectNothingChangesBy(GradientKey(2, 5), AckOutcome::kUnknown);
  TransferKey future = key_;
  future.epoch = Epoch(kTestEpoch.value() + 1);
  ExpectNothingChangesBy(future, AckOutcome::kUnknown);
  EXPECT_EQ(counters().unknown, 3);
}

TEST_F(AcknowledgementTest, OfWhatWasNotSentYetIsUnknown) {
  Produce(key_);
  ExpectNothingChangesBy(key_, AckOutcome::kUnknown);
  ASSERT_TRUE(ledger.StartSending(key_).ok());
  EXPECT_EQ(ledger.Acknowledge(key_), AckOutcome::kAccepted);
}

TEST_F(AcknowledgementTest, OfADiscardedTransferIsStale) {
  Send(key_);
  ledger.DiscardAll();
  ExpectNothingChangesBy(key_, AckOutcome::kStaleEpoch);
}

// ---- Payloads die without the lock -----------------------------------------

TEST_F(LedgerTest, PayloadMayCallTheLedgerWhenItDies) {
  const TransferKey other = ActivationKey(2, 6);
  Send(other);
  ledger.CompleteLocally(other);
  bool pending_while_dropped = false;
  Send(key_, 100, [&] {
    pending_while_dropped = Stage(2).pending_bytes == 200;
    EXPECT_EQ(ledger.Acknowledge(key_), AckOutcome::kDuplicate);
    EXPECT_EQ(ledger.Acknowledge(other), AckOutcome::kAccepted);
  });
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  EXPECT_TRUE(pending_while_dropped);
  EXPECT_EQ(Stage(2).released_bytes, 200);
  EXPECT_TRUE(ledger.Empty());
}

TEST_F(LedgerTest, IsNotEmptyWhileTheLastPayloadDies) {
  bool empty = true;
  Send(key_, 100, [&] { empty = ledger.Empty(); });
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  EXPECT_FALSE(empty);
  EXPECT_TRUE(ledger.Empty());
}

TEST_F(LedgerTest, PayloadMayDiscardAllWhenItDies) {
  Send(ActivationKey(2, 6), 30);
  Send(key_, 100, [&] { ledger.DiscardAll(); });
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  EXPECT_EQ(Stage(2).discarded_bytes, 30);
  EXPECT_EQ(Stage(2).released_bytes, 100);
  EXPECT_TRUE(ledger.Empty());
}

TEST_F(LedgerTest, DiscardedPayloadMayCallTheLedgerWhenItDies) {
  bool called = false;
  Send(key_, 100, [&] {
    called = true;
    EXPECT_TRUE(ledger.Empty());
    EXPECT_EQ(Stage(2).discarded_bytes, 100);
  });
  ledger.DiscardAll();
  EXPECT_TRUE(called);
}

TEST_F(LedgerTest, RefusedPayloadMayCallTheLedgerWhenItDies) {
  Produce(key_);
  bool called = false;
  EXPECT_FALSE(ledger
                   .Produce(key_,
                            {MakeOutput(&allocator, 1,
                                        [&] {
                                          called = true;
                                          (void)ledger.Stats();
                                        })},
                            "w1")
                   .ok());
  EXPECT_TRUE(called);
}

// ---- Discarding ------------------------------------------------------------

TEST_F(LedgerTest, DiscardAllEndsEveryEntry) {
  Produce(ActivationKey(2, 0), 1);
  Send(ActivationKey(2, 1), 10);
  Send(ActivationKey(2, 2), 100);
  ledger.Acknowledge(ActivationKey(2, 2));
  Send(GradientKey(2, 0), 1000);
  ledger.DiscardAll();
  EXPECT_EQ(allocated_bytes(), 0);
  EXPECT_TRUE(ledger.Empty());
  EXPECT_TRUE(ledger.Held().empty());
  EXPECT_EQ(Stage(2).sent_bytes, 110);
  EXPECT_EQ(Stage(2).discarded_bytes, 110);
  EXPECT_EQ(Stage(2).held_bytes, 0);
  EXPECT_EQ(ledger.Stats().pending_transfers, 0);
  EXPECT_EQ(ledger.InBudget("w1", Direction::kActivation), 0);
}

TEST_F(LedgerTest, DiscardedKeyIsNotReusedInItsEpoch) {
  Send(key_);
  ledger.DiscardAll();
  ledger.CompleteLocally(key_);
  EXPECT_EQ(ledger.StartSending(key_).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ledger.Produce(key_, {}, "w1").code(),
            absl::StatusCode::kAlreadyExists);
  Produce(ActivationKey(2, 5, /*step=*/1));
}

TEST_F(LedgerTest, DestructionDropsWhatIsLeft) {
  Ledger::Options options;
  options.epoch = kTestEpoch;  // and the real clock
  {
    Ledger short_lived(options);
    ASSERT_TRUE(
        short_lived.Produce(key_, {MakeOutput(&allocator, 100)}, "w1").ok());
    EXPECT_EQ(allocated_bytes(), 100);
  }
  EXPECT_EQ(allocated_bytes(), 0);
}

// ---- Rule 5: what the send budget counts -----------------------------------

TEST_F(LedgerTest, CountsTheBudgetPerPeerAndDirection) {
  const TransferKey elsewhere = ActivationKey(3, 0);
  ASSERT_TRUE(ledger.Produce(elsewhere, {}, "w2").ok());
  ASSERT_TRUE(ledger.StartSending(elsewhere).ok());
  Send(ActivationKey(2, 0));
  Send(ActivationKey(2, 1));
  Send(GradientKey(2, 0));
  EXPECT_EQ(ledger.InBudget("w1", Direction::kActivation), 2);
  EXPECT_EQ(ledger.InBudget("w1", Direction::kGradient), 1);
  EXPECT_EQ(ledger.InBudget("w2", Direction::kActivation), 1);
  EXPECT_EQ(ledger.InBudget("w3", Direction::kActivation), 0);
}

TEST_F(LedgerTest, OutputWaitingForBudgetDoesNotUseIt) {
  Send(ActivationKey(2, 0));
  Produce(ActivationKey(2, 1));
  EXPECT_EQ(ledger.InBudget("w1", Direction::kActivation), 1);
  EXPECT_EQ(Stage(2).held_bytes, 200);
}

// Otherwise more than K + 1 outputs could be held.
TEST_F(LedgerTest, AcknowledgedOutputUsesBudgetUntilItIsLocallyComplete) {
  Send(key_);
  ledger.Acknowledge(key_);
  EXPECT_EQ(ledger.InBudget("w1", Direction::kActivation), 1);
  ledger.CompleteLocally(key_);
  EXPECT_EQ(ledger.InBudget("w1", Direction::kActivation), 0);
}

// ---- Figures ---------------------------------------------------------------

TEST_F(LedgerTest, SentIsCountedWhenTheSendingStarts) {
  Produce(key_);
  EXPECT_EQ(Stage(2).sent_bytes, 0);
  EXPECT_EQ(Stage(2).held_bytes, 100);
  ASSERT_TRUE(ledger.StartSending(key_).ok());
  EXPECT_EQ(Stage(2).sent_bytes, 100);
  EXPECT_EQ(Stage(2).pending_bytes, 100);
  EXPECT_EQ(Stage(2).held_bytes, 100);
}

// Stage 0 holds 100 and lets go before stage 2 holds 30 twice: the worker's
// peak is the largest sum of one moment, not the sum of peaks.
TEST_F(LedgerTest, HeldPeakIsOfOneMoment) {
  Send(ActivationKey(0, 0), 100);
  Send(ActivationKey(2, 0), 30);
  ledger.CompleteLocally(ActivationKey(0, 0));
  ledger.Acknowledge(ActivationKey(0, 0));
  Send(ActivationKey(2, 1), 30);
  EXPECT_EQ(Stage(0).held_peak_bytes, 100);
  EXPECT_EQ(Stage(2).held_peak_bytes, 60);
  EXPECT_EQ(ledger.Stats().held_peak_bytes, 130);
  EXPECT_EQ(ledger.Stats().held_bytes, 60);
}

TEST_F(LedgerTest, GradientsAreNotPartOfHeldAndStageFigures) {
  Send(GradientKey(2, 0), 50);
  LedgerStats stats = ledger.Stats();
  EXPECT_TRUE(stats.stages.empty());
  EXPECT_EQ(stats.held_peak_bytes, 0);
  EXPECT_EQ(stats.pending_transfers, 1);
  EXPECT_EQ(stats.pending_bytes, 50);
}

TEST_F(LedgerTest, OldestPendingIsTheAgeOfTheLongestSending) {
  EXPECT_EQ(ledger.Stats().oldest_pending, absl::ZeroDuration());
  Produce(ActivationKey(2, 0));
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(ledger.Stats().oldest_pending, absl::ZeroDuration());
  ASSERT_TRUE(ledger.StartSending(ActivationKey(2, 0)).ok());
  clock.Advance(absl::Seconds(2));
  Send(ActivationKey(2, 1));
  clock.Advance(absl::Seconds(4));
  EXPECT_EQ(ledger.Stats().oldest_pending, absl::Seconds(6));
  ledger.Acknowledge(ActivationKey(2, 0));
  EXPECT_EQ(ledger.Stats().oldest_pending, absl::Seconds(4));
  ledger.Acknowledge(ActivationKey(2, 1));
  EXPECT_EQ(ledger.Stats().oldest_pending, absl::ZeroDuration());
}

TEST_F(LedgerTest, HeldListsWhatWaitsForWhomAndSinceWhen) {
  Produce(ActivationKey(2, 0), 10);
  clock.Advance(absl::Seconds(3));
  Send(GradientKey(2, 1), 20);
  Send(ActivationKey(2, 2), 30);
  ledger.Acknowledge(ActivationKey(2, 2));
  clock.Advance(absl::Seconds(1));
  const std::vector<HeldOutput> held = ledger.Held();
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[0].key, ActivationKey(2, 0));
  EXPECT_EQ(held[0].state, EntryState::kProduced);
  EXPECT_EQ(held[0].bytes, 10);
  EXPECT_EQ(held[0].age, absl::Seconds(4));
  EXPECT_EQ(held[0].peer, "w1");
  EXPECT_EQ(held[1].key, GradientKey(2, 1));
  EXPECT_EQ(held[1].state, EntryState::kSending);
  EXPECT_EQ(held[1].age, absl::Seconds(1));
}

TEST_F(LedgerTest, EmptyOnlyWithoutProducedAndSendingEntries) {
  EXPECT_TRUE(ledger.Empty());
  Produce(key_);
  EXPECT_FALSE(ledger.Empty());
  ASSERT_TRUE(ledger.StartSending(key_).ok());
  EXPECT_FALSE(ledger.Empty());
  ledger.CompleteLocally(key_);
  EXPECT_FALSE(ledger.Empty());
  ledger.Acknowledge(key_);
  EXPECT_TRUE(ledger.Empty());
}

}  // namespace
}  // namespace stagecoach::memory
