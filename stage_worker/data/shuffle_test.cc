#include "stage_worker/data/shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace stagecoach::worker {
namespace {

using Order = std::vector<uint32_t>;

// The reference sequence of the authors' code for state 0.
TEST(SplitMix64Test, GivesThePublishedSequence) {
  SplitMix64 generator(0);
  EXPECT_EQ(generator.Next(), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(generator.Next(), 0x6E789E6AA1B965F4u);
  EXPECT_EQ(generator.Next(), 0x06C45D188009454Fu);
}

// Of the first five values from state 1 the third lies past 3 * 2^62.
TEST(SplitMix64Test, DrawsAgainInsteadOfPreferringSmallValues) {
  SplitMix64 generator(1);
  const uint64_t bound = uint64_t{3} << 62;
  EXPECT_EQ(generator.Below(bound), 10451216379200822465u);
  EXPECT_EQ(generator.Below(bound), 13757245211066428519u);
  EXPECT_EQ(generator.Below(bound), 8196980753821780235u);
}

TEST(ShuffledOrderTest, IsAFunctionOfSeedAndPass) {
  EXPECT_EQ(ShuffledOrder(10, 7, 0), (Order{2, 0, 5, 7, 3, 9, 8, 1, 4, 6}));
  EXPECT_EQ(ShuffledOrder(10, 7, 1), (Order{4, 7, 5, 3, 1, 9, 6, 0, 8, 2}));
  EXPECT_EQ(ShuffledOrder(10, 8, 0), (Order{7, 3, 0, 5, 9, 2, 1, 8, 6, 4}));
}

TEST(ShuffledOrderTest, VisitsEachSampleOnce) {
  for (const uint32_t count : {0u, 1u, 2u, 3u, 1000u}) {
    Order order = ShuffledOrder(count, -1, int64_t{1} << 40);
    Order all(count);
    std::iota(all.begin(), all.end(), 0u);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, all);
  }
}

}  // namespace
}  // namespace stagecoach::worker
