#include "transport/ring/ring.h"

#include <array>
#include <thread>

#include "gtest/gtest.h"

namespace stagecoach::transport::ring {
namespace {

class RingTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kCapacity = 4;
  RingCursors cursors_{};
  std::array<int, kCapacity> entries_{};
  RingProducer<int> producer_{&cursors_, entries_.data(), kCapacity};
  RingConsumer<int> consumer_{&cursors_, entries_.data(), kCapacity};
};

TEST_F(RingTest, KeepsOrderAroundTheEnd) {
  int value = 0;
  for (int i = 0; i < 100; i += 2) {
    EXPECT_EQ(producer_.TryPush(i), RingResult::kDone);
    EXPECT_EQ(producer_.TryPush(i + 1), RingResult::kDone);
    for (int k = i; k < i + 2; ++k) {
      EXPECT_TRUE(consumer_.HasNews());
      EXPECT_EQ(consumer_.TryPop(&value), RingResult::kDone);
      EXPECT_EQ(value, k);
    }
  }
  EXPECT_FALSE(consumer_.HasNews());
  EXPECT_EQ(consumer_.TryPop(&value), RingResult::kNothing);
}

TEST_F(RingTest, AFullRingRefusesAndAsksToBeTold) {
  for (int i = 0; i < 4; ++i) producer_.TryPush(i);
  EXPECT_FALSE(consumer_.TakeStarved());
  EXPECT_EQ(producer_.TryPush(4), RingResult::kNothing);
  int value = 0;
  consumer_.TryPop(&value);
  EXPECT_TRUE(consumer_.TakeStarved());
  EXPECT_FALSE(consumer_.TakeStarved());
  EXPECT_EQ(producer_.TryPush(4), RingResult::kDone);
}

TEST_F(RingTest, NoticesAnImpossibleCursorOfTheProducer) {
  int value = 0;
  for (const uint32_t written : {5u, 1000u, 0x80000000u, 0xFFFFFFFFu}) {
    cursors_.written.store(written);
    EXPECT_EQ(consumer_.TryPop(&value), RingResult::kCorrupt) << written;
  }
}

TEST_F(RingTest, NoticesAnImpossibleCursorOfTheConsumer) {
  producer_.TryPush(1);
  for (const uint32_t read : {2u, 1000u, 0x80000000u, 0xFFFFFFFFu - 4}) {
    cursors_.read.store(read);
    EXPECT_EQ(producer_.TryPush(2), RingResult::kCorrupt) << read;
  }
}

TEST(RingThreadsTest, CarriesEverythingBetweenTwoThreads) {
  constexpr int kEntries = 100000;
  RingCursors cursors{};
  std::array<int, 8> entries{};
  RingProducer<int> producer(&cursors, entries.data(), 8);
  RingConsumer<int> consumer(&cursors, entries.data(), 8);
  std::thread feeder([&] {
    for (int i = 0; i < kEntries;) {
      if (producer.TryPush(i) == RingResult::kDone) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (int expected = 0; expected < kEntries;) {
    int value = -1;
    if (consumer.TryPop(&value) == RingResult::kDone) {
      ASSERT_EQ(value, expected++);
    } else {
      std::this_thread::yield();
    }
  }
  feeder.join();
}

}  // namespace
}  // namespace stagecoach::transport::ring
