#include "schedule/greedy.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/testing/lists.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

using testing::Join;

GreedyOptions Like(absl::string_view kind, int p, int v, int m) {
  GenerateOptions shape;
  shape.workers = p;
  shape.stages_per_worker = v;
  shape.microbatches = m;
  GreedyOptions options;
  options.placement = Generate(kind, shape)->placement;
  options.workers = p;
  options.stages_per_worker = v;
  options.microbatches = m;
  options.costs.resize(options.placement.size());
  return options;
}

TEST(GreedyTest, TakesBackwardsFirstAndFillsWaitsWithWeights) {
  GreedyOptions options = Like("1f1b", 2, 1, 3);
  options.limit = 2;
  const auto schedule = GreedySchedule(options);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(Join(schedule->actions[0]), "0F0 0F1 0I0 0W0 0I1 0F2 0W1 0I2 0W2");
  EXPECT_EQ(Join(schedule->actions[1]), "1F0 1I0 1F1 1I1 1W0 1W1 1F2 1I2 1W2");
}

TEST(GreedyTest, AnyLimitThatOneMicrobatchKeepsIsKeptAndLive) {
  const uint32_t seed = 8;
  std::mt19937 random(seed);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int i = 0; i < 300; ++i) {
    const bool turn = pick(0, 1) == 1;
    GreedyOptions options = Like(turn ? "zbv" : "interleaved", pick(1, 6),
                                 turn ? 2 : pick(1, 4), pick(1, 14));
    std::vector<int64_t> sums(static_cast<size_t>(options.workers), 0);
    for (size_t s = 0; s < options.placement.size(); ++s) {
      options.weights.push_back(pick(1, 9));
      sums[options.placement[s].index()] += options.weights.back();
      options.costs[s] = {pick(0, 5) + 0.1, pick(0, 5) + 0.1, pick(0, 5) + 0.1};
    }
    options.limit = *std::max_element(sums.begin(), sums.end()) + pick(0, 12);
    options.split_backward = pick(0, 1) == 1;
    options.order = static_cast<GreedyOrder>(pick(0, 2));
    const auto schedule = GreedySchedule(options);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    const auto lowered = Lower(*schedule, {});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    VerifyOptions demands;
    demands.stage_in_flight_bytes = options.weights;
    demands.memory_limit_bytes = options.limit;
    const Verdict verdict = Verify(*lowered, demands);
    EXPECT_TRUE(verdict.ok && verdict.ascending_accumulation)
        << "seed " << seed << ", case " << i << ": " << verdict.ToStatus();
  }
}

TEST(GreedyTest, ALimitBelowOneMicrobatchIsRefusedByNumber) {
  GreedyOptions options = Like("zbv", 2, 2, 4);
  options.limit = 1;
  const auto refused = GreedySchedule(options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().message(),
              ::testing::HasSubstr("has 2 in flight, over the limit of 1"));
}

TEST(GreedyTest, TablesThatDoNotFitAreRefused) {
  GreedyOptions options = Like("1f1b", 2, 1, 4);
  options.weights = {1};
  EXPECT_EQ(GreedySchedule(options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stagecoach::schedule
