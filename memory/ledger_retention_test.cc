// Rule 4: released means that the bytes are gone; what is not is retained, by
// whom, and until when.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "memory/ledger.h"
#include "memory/ledger_test_util.h"

namespace stagecoach::memory {
namespace {

std::string Text(const std::vector<RetainedBy>& retained_by) {
  std::string text;
  for (const RetainedBy& retained : retained_by) {
    text += retained.op + "=" + std::to_string(retained.bytes) + " ";
  }
  return text;
}

class LedgerRetentionTest : public ::testing::Test, protected LedgerBed {
 protected:
  const TransferKey key_ = ActivationKey(2, 5);
};

TEST_F(LedgerRetentionTest, ReleasedMeansThatTheAccountWentDown) {
  Tag tag;
  tag.category = Category::kActivation;
  tag.stage = key_.stage;
  {
    const ScopedTag scope(tag);
    Send(key_, 100);
  }
  EXPECT_EQ(allocator.Stats().stage_activation_bytes.at(key_.stage), 100);
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  EXPECT_EQ(Stage(2).released_bytes, 100);
  EXPECT_EQ(allocator.Stats().stage_activation_bytes.at(key_.stage), 0);
}

TEST_F(LedgerRetentionTest, OutputThatSomebodyKeepsIsRetainedByUnknown) {
  const std::shared_ptr<void> keeper = SendAndKeep(key_);
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  EXPECT_EQ(Stage(2).released_bytes, 0);
  EXPECT_EQ(Stage(2).retained_bytes, 100);
  EXPECT_EQ(Text(Stage(2).retained_by), "unknown=100 ");
  EXPECT_EQ(Stage(2).held_bytes, 0);
  EXPECT_EQ(ledger.Stats().retained_now_bytes, 100);
  EXPECT_TRUE(ledger.Empty());
}

TEST_F(LedgerRetentionTest, RetainedNowGoesToZeroWhenTheBlockIsFreedLater) {
  std::shared_ptr<void> keeper = SendAndKeep(key_);
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  keeper.reset();
  EXPECT_EQ(ledger.Stats().retained_now_bytes, 0);
  EXPECT_EQ(Stage(2).retained_bytes, 100);
}

TEST_F(LedgerRetentionTest, KeeperThatLetsGoBeforeTheReleaseDoesNotRetain) {
  std::shared_ptr<void> keeper = SendAndKeep(key_);
  ledger.CompleteLocally(key_);
  keeper.reset();
  ledger.Acknowledge(key_);
  EXPECT_EQ(Stage(2).released_bytes, 100);
  EXPECT_EQ(Stage(2).retained_bytes, 0);
}

TEST_F(LedgerRetentionTest, NamingMovesBytesFromUnknownToTheOp) {
  const std::shared_ptr<void> first = SendAndKeep(key_, 100);
  const std::shared_ptr<void> second = SendAndKeep(ActivationKey(2, 6), 30);
  for (int microbatch : {5, 6}) {
    ledger.CompleteLocally(ActivationKey(2, microbatch));
    ledger.Acknowledge(ActivationKey(2, microbatch));
  }
  ledger.NameRetention(key_, "TanhBackward0");
  EXPECT_EQ(Text(Stage(2).retained_by), "TanhBackward0=100 unknown=30 ");
  ledger.NameRetention(ActivationKey(2, 6), "TanhBackward0");
  EXPECT_EQ(Text(Stage(2).retained_by), "TanhBackward0=130 ");
}

TEST_F(LedgerRetentionTest, NamingTwiceOrTheUnknownChangesNothing) {
  const std::shared_ptr<void> keeper = SendAndKeep(key_);
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  ledger.NameRetention(key_, "TanhBackward0");
  ledger.NameRetention(key_, "ReluBackward0");
  ledger.NameRetention(ActivationKey(7, 7), "ReluBackward0");
  EXPECT_EQ(Text(Stage(2).retained_by), "TanhBackward0=100 ");
}

TEST_F(LedgerRetentionTest, UnnamedRetentionsAreTakenOnce) {
  const std::shared_ptr<void> keeper = SendAndKeep(key_);
  EXPECT_TRUE(ledger.TakeUnnamed().empty());
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  const std::vector<UnnamedRetention> unnamed = ledger.TakeUnnamed();
  ASSERT_EQ(unnamed.size(), 1u);
  EXPECT_EQ(unnamed[0].key, key_);
  EXPECT_EQ(unnamed[0].bytes, 100);
  EXPECT_NE(unnamed[0].storage, nullptr);
  EXPECT_TRUE(ledger.TakeUnnamed().empty());
  ledger.NameRetention(unnamed[0], "TanhBackward0");
  EXPECT_EQ(Text(Stage(2).retained_by), "TanhBackward0=100 ");
}

// The backward may free the block before the engine looks: the address must
// not be used any more, but the op can still be told.
TEST_F(LedgerRetentionTest, RetentionFreedMeanwhileHasNoStorageButCanBeNamed) {
  std::shared_ptr<void> keeper = SendAndKeep(key_);
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  keeper.reset();
  const std::vector<UnnamedRetention> unnamed = ledger.TakeUnnamed();
  ASSERT_EQ(unnamed.size(), 1u);
  EXPECT_EQ(unnamed[0].storage, nullptr);
  ledger.NameRetention(unnamed[0], "TanhBackward0");
  EXPECT_EQ(Text(Stage(2).retained_by), "TanhBackward0=100 ");
}

TEST_F(LedgerRetentionTest, NobodyNamesFreedRetentionsTwoStepsLater) {
  for (int64_t step = 0; step < 3; ++step) {
    const TransferKey key = ActivationKey(2, 5, step);
    const std::shared_ptr<void> keeper = SendAndKeep(key);
    ledger.CompleteLocally(key);
    ledger.Acknowledge(key);
  }
  ledger.NameRetention(ActivationKey(2, 5, 0), "TanhBackward0");
  EXPECT_EQ(Text(Stage(2).retained_by), "unknown=300 ");
  EXPECT_EQ(ledger.TakeUnnamed().size(), 2u);
}

TEST_F(LedgerRetentionTest, OnlyTheKeptTensorOfATransferIsRetained) {
  Ledger::Output kept = MakeOutput(&allocator, 10);
  Ledger::Output also_kept = MakeOutput(&allocator, 20);
  const std::shared_ptr<void> keeper = kept.payload;
  const std::shared_ptr<void> other_keeper = also_kept.payload;
  ASSERT_TRUE(ledger
                  .Produce(key_,
                           {std::move(kept), std::move(also_kept),
                            MakeOutput(&allocator, 70)},
                           "w1")
                  .ok());
  ASSERT_TRUE(ledger.StartSending(key_).ok());
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  EXPECT_EQ(Stage(2).released_bytes, 70);
  EXPECT_EQ(Stage(2).retained_bytes, 30);
  const std::vector<UnnamedRetention> unnamed = ledger.TakeUnnamed();
  ASSERT_EQ(unnamed.size(), 2u);
  ledger.NameRetention(unnamed[0], "TanhBackward0");
  EXPECT_EQ(Text(Stage(2).retained_by), "TanhBackward0=10 unknown=20 ");
}

TEST_F(LedgerRetentionTest, MemoryThatIsNotAccountedIsReleasedOnceDropped) {
  Ledger::Output slot;
  slot.payload = std::make_shared<int>(1);
  slot.bytes = 64;
  const std::weak_ptr<void> payload = slot.payload;
  ASSERT_TRUE(ledger.Produce(key_, {std::move(slot)}, "w1").ok());
  ASSERT_TRUE(ledger.StartSending(key_).ok());
  ledger.CompleteLocally(key_);
  ledger.Acknowledge(key_);
  EXPECT_TRUE(payload.expired());
  EXPECT_EQ(Stage(2).released_bytes, 64);
}

TEST_F(LedgerRetentionTest, GradientThatSomebodyKeepsIsSeenInRetainedNow) {
  std::shared_ptr<void> keeper = SendAndKeep(GradientKey(2, 0), 50);
  ledger.CompleteLocally(GradientKey(2, 0));
  ledger.Acknowledge(GradientKey(2, 0));
  EXPECT_EQ(ledger.Stats().retained_now_bytes, 50);
  EXPECT_TRUE(ledger.TakeUnnamed().empty());
  keeper.reset();
  EXPECT_EQ(ledger.Stats().retained_now_bytes, 0);
}

}  // namespace
}  // namespace stagecoach::memory
