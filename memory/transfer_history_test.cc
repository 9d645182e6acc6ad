#include "memory/transfer_history.h"

#include <random>
#include <set>

#include "gtest/gtest.h"

namespace stagecoach::memory {
namespace {

TransferKey Key(int64_t step, int microbatch = 0) {
  TransferKey key;
  key.step = StepIndex(step);
  key.microbatch = MicrobatchIndex(microbatch);
  return key;
}

TEST(TransferHistoryTest, ContainsWhatWasInserted) {
  TransferHistory history;
  history.Insert(Key(3));
  EXPECT_TRUE(history.Contains(Key(3)));
  EXPECT_FALSE(history.Contains(Key(2)));
  EXPECT_FALSE(history.Contains(Key(4)));
}

TEST(TransferHistoryTest, EveryFieldOfAKeyCounts) {
  TransferHistory history;
  history.Insert(Key(3));
  TransferKey other = Key(3);
  other.direction = Direction::kGradient;
  EXPECT_FALSE(history.Contains(other));
  other = Key(3);
  other.stage = StageIndex(1);
  EXPECT_FALSE(history.Contains(other));
  other = Key(3);
  other.replica = 1;
  EXPECT_FALSE(history.Contains(other));
  EXPECT_FALSE(history.Contains(Key(3, 1)));
}

TEST(TransferHistoryTest, DoesNotGrowWithTheStepsOfALongJob) {
  TransferHistory history;
  for (int64_t step = 0; step < 10000; ++step) {
    for (int microbatch = 0; microbatch < 4; ++microbatch) {
      history.Insert(Key(step, microbatch));
    }
  }
  EXPECT_EQ(history.intervals(), 4);
  EXPECT_TRUE(history.Contains(Key(1234, 3)));
  EXPECT_FALSE(history.Contains(Key(10000, 3)));
}

TEST(TransferHistoryTest, AgreesWithASetInAnyOrder) {
  for (int seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    TransferHistory history;
    std::set<TransferKey> reference;
    for (int i = 0; i < 60; ++i) {
      const TransferKey key = Key(random() % 40, random() % 2);
      history.Insert(key);
      reference.insert(key);
    }
    int64_t runs = 0;
    for (int step = -1; step <= 41; ++step) {
      for (int microbatch = 0; microbatch < 2; ++microbatch) {
        const TransferKey key = Key(step, microbatch);
        const bool in = reference.count(key) > 0;
        ASSERT_EQ(history.Contains(key), in) << ToString(key);
        if (in && reference.count(Key(step - 1, microbatch)) == 0) ++runs;
      }
    }
    ASSERT_EQ(history.intervals(), runs);
  }
}

TEST(TransferKeyTest, TextNamesThePlace) {
  TransferKey key = Key(37, 5);
  key.stage = StageIndex(2);
  key.epoch = Epoch(1);
  EXPECT_EQ(ToString(key),
            "stage 2, step 37, microbatch 5, activation (epoch 1, replica 0)");
  key.microbatch = MicrobatchIndex(-1);
  key.direction = Direction::kGradient;
  EXPECT_EQ(ToString(key),
            "stage 2, step 37, tied parameters, gradient (epoch 1, replica 0)");
}

}  // namespace
}  // namespace stagecoach::memory
