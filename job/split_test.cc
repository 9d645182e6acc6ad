#include "job/split.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace stagecoach::job {
namespace {

using Counts = std::vector<int64_t>;

Counts CountsOf(const std::vector<StageLayers>& slices) {
  Counts counts;
  for (const StageLayers& slice : slices) {
    counts.push_back(slice.end - slice.begin);
  }
  return counts;
}

// Contiguous from 0 to `layers`, no slice empty.
void ExpectCover(const std::vector<StageLayers>& slices, int64_t layers) {
  int64_t next = 0;
  for (const StageLayers& slice : slices) {
    EXPECT_EQ(slice.begin, next);
    EXPECT_GT(slice.end, slice.begin);
    next = slice.end;
  }
  EXPECT_EQ(next, layers);
}

TEST(SplitLayersTest, EarlierStagesTakeTheRemainder) {
  EXPECT_EQ(CountsOf(*SplitLayers(8, 4, {})), (Counts{2, 2, 2, 2}));
  EXPECT_EQ(CountsOf(*SplitLayers(30, 4, {})), (Counts{8, 8, 7, 7}));
  EXPECT_EQ(CountsOf(*SplitLayers(5, 5, {})), (Counts{1, 1, 1, 1, 1}));
  EXPECT_EQ(CountsOf(*SplitLayers(3, 1, {})), (Counts{3}));
}

TEST(SplitLayersTest, FollowsAList) {
  const auto slices = SplitLayers(8, 4, {2, 3, 2, 1});
  ASSERT_TRUE(slices.ok());
  EXPECT_EQ(CountsOf(*slices), (Counts{2, 3, 2, 1}));
  ExpectCover(*slices, 8);
}

TEST(SplitLayersTest, SaysWhichLayerIsLost) {
  EXPECT_EQ(SplitLayers(8, 4, {2, 2, 2, 1}).status(),
            absl::InvalidArgumentError(
                "[2, 2, 2, 1] covers 7 of 8 layers and loses layer 7; try "
                "\"auto\" or [2, 2, 2, 2]"));
}

TEST(SplitLayersTest, SaysWhichStageGetsALayerThatIsNotThere) {
  EXPECT_EQ(SplitLayers(8, 4, {2, 2, 2, 3}).status(),
            absl::InvalidArgumentError(
                "[2, 2, 2, 3] gives stage 3 layer 8, but the model has only "
                "layers 0 to 7; try \"auto\" or [2, 2, 2, 2]"));
}

TEST(SplitLayersTest, RefusesListsOfAnotherLengthAndEmptyStages) {
  EXPECT_EQ(SplitLayers(8, 4, {4, 4}).status(),
            absl::InvalidArgumentError(
                "lists 2 stages, but workers x stages_per_worker = 4; try "
                "\"auto\" or [2, 2, 2, 2]"));
  EXPECT_EQ(SplitLayers(8, 2, {8, 0}).status(),
            absl::InvalidArgumentError(
                "stage 1 has 0 layers and needs at least 1; try \"auto\" or "
                "[4, 4]"));
  EXPECT_FALSE(SplitLayers(8, 2, {9, -1}).ok());
}

TEST(SplitLayersTest, RefusesMoreStagesThanLayers) {
  EXPECT_EQ(SplitLayers(3, 4, {}).status(),
            absl::InvalidArgumentError(
                "4 stages need at least 4 layers, the model has 3; lower "
                "pipeline.workers or pipeline.stages_per_worker, or raise "
                "model.layers"));
  EXPECT_FALSE(SplitLayers(3, 0, {}).ok());
  EXPECT_FALSE(SplitLayers(0, 1, {}).ok());
}

TEST(SplitLayersTest, SumsThatLeave64BitsAreRefused) {
  const int64_t huge = INT64_MAX;
  EXPECT_FALSE(SplitLayers(8, 3, {huge, huge, 10}).ok());
}

TEST(SplitLayersPropertyTest, AutoCoversEveryLayerOnceAndEvenly) {
  for (int64_t layers = 1; layers <= 40; ++layers) {
    for (int64_t stages = 1; stages <= layers; ++stages) {
      const auto slices = SplitLayers(layers, stages, {});
      ASSERT_TRUE(slices.ok()) << layers << " " << stages;
      ASSERT_EQ(static_cast<int64_t>(slices->size()), stages);
      ExpectCover(*slices, layers);
      const Counts counts = CountsOf(*slices);
      EXPECT_LE(counts.front() - counts.back(), 1);
      EXPECT_TRUE(std::is_sorted(counts.rbegin(), counts.rend()));
    }
  }
}

// A list is accepted exactly when it covers; what is accepted is the list.
TEST(SplitLayersPropertyTest, AcceptsExactlyTheListsThatCover) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int accepted = 0;
  for (int round = 0; round < 5000; ++round) {
    Counts list(std::uniform_int_distribution<size_t>(1, 4)(random));
    int64_t sum = 0;
    bool positive = true;
    for (int64_t& count : list) {
      count = std::uniform_int_distribution<int64_t>(0, 4)(random);
      sum += count;
      positive = positive && count > 0;
    }
    const int64_t layers =
        std::uniform_int_distribution<int64_t>(1, 12)(random);
    const auto slices =
        SplitLayers(layers, static_cast<int64_t>(list.size()), list);
    ASSERT_EQ(slices.ok(), positive && sum == layers)
        << testing::PrintToString(list) << " of " << layers;
    if (!slices.ok()) continue;
    ++accepted;
    ExpectCover(*slices, layers);
    EXPECT_EQ(CountsOf(*slices), list);
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace stagecoach::job
