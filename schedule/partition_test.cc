#include "schedule/partition.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PartitionOptions Options(std::vector<double> costs, int stages) {
  PartitionOptions options;
  options.costs = std::move(costs);
  options.stages = stages;
  return options;
}

// The head is as expensive as four layers.
TEST(PartitionTest, GivesTheStageOfAnExpensiveLayerFewerOthers) {
  const auto partition =
      PartitionLayers(Options({1, 1, 1, 1, 1, 1, 1, 1, 4}, 3));
  ASSERT_TRUE(partition.ok()) << partition.status();
  EXPECT_THAT(partition->layers, ElementsAre(4, 4, 1));
  EXPECT_EQ(partition->largest_cost, 4);
  EXPECT_EQ(partition->even_cost, 6);
}

TEST(PartitionTest, EvensOutWhatTheLargestStageLeavesOpen) {
  const auto partition = PartitionLayers(Options({9, 1, 1, 1, 1, 1, 1}, 3));
  ASSERT_TRUE(partition.ok()) << partition.status();
  EXPECT_THAT(partition->layers, ElementsAre(1, 3, 3));
}

TEST(PartitionTest, KeepsTheMemoryLimitOfEachStage) {
  PartitionOptions options = Options({1, 1, 1, 1}, 2);
  options.bytes = {5, 1, 1, 1};
  options.limit_bytes = 5;
  const auto partition = PartitionLayers(options);
  ASSERT_TRUE(partition.ok()) << partition.status();
  EXPECT_THAT(partition->layers, ElementsAre(1, 3));
  options.limit_bytes = 4;
  EXPECT_EQ(PartitionLayers(options).status().code(),
            absl::StatusCode::kResourceExhausted);
}

double BestByTryingAll(const std::vector<double>& costs, size_t first,
                       int stages) {
  if (stages == 1) {
    return std::accumulate(costs.begin() + static_cast<ptrdiff_t>(first),
                           costs.end(), 0.0);
  }
  double best = std::numeric_limits<double>::infinity();
  double cost = 0;
  for (size_t next = first + 1;
       next + static_cast<size_t>(stages) - 1 <= costs.size(); ++next) {
    cost += costs[next - 1];
    best = std::min(best,
                    std::max(cost, BestByTryingAll(costs, next, stages - 1)));
  }
  return best;
}

TEST(PartitionTest, IsTheBestOfAllPartitions) {
  const uint32_t seed = 5;
  std::mt19937 random(seed);
  for (int i = 0; i < 200; ++i) {
    const int layers = std::uniform_int_distribution<int>(1, 10)(random);
    const int stages = std::uniform_int_distribution<int>(1, layers)(random);
    std::vector<double> costs;
    for (int l = 0; l < layers; ++l) {
      costs.push_back(std::uniform_int_distribution<int>(0, 20)(random));
    }
    const auto partition = PartitionLayers(Options(costs, stages));
    ASSERT_TRUE(partition.ok()) << partition.status();
    EXPECT_EQ(partition->largest_cost, BestByTryingAll(costs, 0, stages))
        << "seed " << seed << ", case " << i;
    EXPECT_LE(partition->largest_cost, partition->even_cost);
    size_t first = 0;
    for (const int count : partition->layers) {
      ASSERT_GE(count, 1);
      double cost = 0;
      for (int l = 0; l < count; ++l) cost += costs[first++];
      EXPECT_LE(cost, partition->largest_cost);
    }
    EXPECT_EQ(first, costs.size()) << "seed " << seed << ", case " << i;
  }
}

TEST(PartitionTest, RefusesWhatCannotBeCut) {
  EXPECT_THAT(PartitionLayers(Options({1, 1}, 3)).status().message(),
              HasSubstr("2 layers cannot be cut into 3 stages"));
  EXPECT_THAT(PartitionLayers(Options({1, -1}, 1)).status().message(),
              HasSubstr("cost -1 of layer 1"));
  PartitionOptions options = Options({1, 1}, 1);
  options.bytes = {1};
  EXPECT_EQ(PartitionLayers(options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stagecoach::schedule
