#include "schedule/auto.h"

#include <algorithm>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

using ::testing::HasSubstr;

// Costs and bytes of a model cut into P*V stages: those of V = 1 shared out.
AutoOptions Uniform(int p, int m, int max_v) {
  AutoOptions options;
  options.workers = p;
  options.microbatches = m;
  for (int v = 1; v <= max_v; ++v) {
    StageProfile profile;
    profile.costs = {{1.0 / v, 1.0 / v, 1.0 / v}};
    profile.bytes = {{120 / v, 10}};
    options.profiles.push_back(profile);
  }
  return options;
}

TEST(AutoTest, TakesAScheduleWithTheLeastPossibleBubbleIfMemoryAllows) {
  const auto choice = ChooseSchedule(Uniform(4, 12, 2));
  ASSERT_TRUE(choice.ok()) << choice.status();
  const AutoCandidate& chosen = choice->candidates[choice->chosen];
  EXPECT_EQ(chosen.refused, "");
  // ZBV's: (P-1) forward times of a half-size stage.
  EXPECT_LE(chosen.makespan, 36 + 1.5 + 1e-9);
  EXPECT_EQ(Verify(choice->schedule).ToStatus(), absl::OkStatus());
}

TEST(AutoTest, KeepsTheMemoryLimitAndSaysWhyOthersDoNot) {
  AutoOptions options = Uniform(4, 12, 2);
  options.memory_limit_bytes = 240;
  const auto choice = ChooseSchedule(options);
  ASSERT_TRUE(choice.ok()) << choice.status();
  VerifyOptions demands;
  demands.memory_limit_bytes = 240;
  const int v = choice->schedule.stages_per_worker;
  demands.stage_in_flight_bytes.assign(
      static_cast<size_t>(choice->schedule.stages()), 120 / v);
  EXPECT_EQ(Verify(choice->schedule, demands).ToStatus(), absl::OkStatus());
  const auto gpipe =
      std::find_if(choice->candidates.begin(), choice->candidates.end(),
                   [](const AutoCandidate& c) { return c.kind == "gpipe"; });
  ASSERT_NE(gpipe, choice->candidates.end());
  EXPECT_THAT(gpipe->refused,
              HasSubstr("1440 bytes in flight, over the limit of 240"));
}

TEST(AutoTest, ALimitThatNothingKeepsIsRefusedWithTheSmallest) {
  AutoOptions options = Uniform(4, 12, 2);
  options.memory_limit_bytes = 100;
  const auto refused = ChooseSchedule(options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().message(),
              HasSubstr("the smallest limit that one keeps is 120"));
}

TEST(AutoTest, OptionsThatDoNotFitAreRefused) {
  EXPECT_EQ(ChooseSchedule(Uniform(0, 1, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  AutoOptions options = Uniform(2, 4, 1);
  options.profiles[0].costs.resize(3);
  EXPECT_THAT(ChooseSchedule(options).status().message(),
              HasSubstr("has 3 entries; give one or 2"));
  options.profiles.clear();
  EXPECT_THAT(ChooseSchedule(options).status().message(),
              HasSubstr("none was tried"));
}

SimulateResult Simulated(const AutoOptions& options, const Schedule& schedule) {
  const StageProfile& profile =
      options.profiles[static_cast<size_t>(schedule.stages_per_worker - 1)];
  SimulateOptions simulate;
  simulate.costs = profile.costs;
  simulate.bytes = profile.bytes;
  simulate.latency = options.latency;
  simulate.bandwidth = options.bandwidth;
  return *Simulate(schedule, simulate);
}

bool Fits(const AutoOptions& options, const SimulateResult& run) {
  return std::all_of(run.workers.begin(), run.workers.end(),
                     [&options](const WorkerTimes& worker) {
                       return options.memory_limit_bytes == 0 ||
                              worker.peak_in_flight_bytes <=
                                  options.memory_limit_bytes;
                     });
}

// Does not use what ChooseSchedule says of its candidates.
double BestFixed(const AutoOptions& options) {
  double best = std::numeric_limits<double>::infinity();
  for (const Generator& generator : Generators()) {
    for (int v = 1; v <= static_cast<int>(options.profiles.size()); ++v) {
      const int only = generator.only_stages_per_worker;
      if (!generator.trains || (only != 0 && only != v)) continue;
      GenerateOptions shape;
      shape.workers = options.workers;
      shape.stages_per_worker = v;
      shape.microbatches = options.microbatches;
      const SimulateResult run =
          Simulated(options, *Lower(*Generate(generator.kind, shape), {}));
      if (Fits(options, run)) best = std::min(best, run.makespan);
    }
  }
  return best;
}

AutoOptions RandomProfile(std::mt19937* random) {
  const auto pick = [random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(*random);
  };
  std::uniform_real_distribution<double> cost(0.2, 3);
  AutoOptions options;
  options.workers = pick(1, 5);
  options.microbatches = pick(1, 12);
  options.latency = pick(0, 1) * cost(*random) / 10;
  options.bandwidth = pick(0, 1) * 100;
  const int max_v = pick(1, 3);
  for (int v = 1; v <= max_v; ++v) {
    StageProfile profile;
    for (int s = 0; s < options.workers * v; ++s) {
      profile.costs.push_back(
          {cost(*random) / v, cost(*random) / v, cost(*random) / v});
      profile.bytes.push_back({pick(5, 50), pick(1, 9)});
    }
    options.profiles.push_back(profile);
  }
  options.memory_limit_bytes = pick(0, 2) * 200;
  return options;
}

TEST(AutoTest, IsNeverSlowerThanTheBestFixedScheduleAtTheSameLimit) {
  const uint32_t seed = 17;
  std::mt19937 random(seed);
  int faster = 0;
  for (int i = 0; i < 200; ++i) {
    const AutoOptions options = RandomProfile(&random);
    const auto choice = ChooseSchedule(options);
    ASSERT_TRUE(choice.ok()) << choice.status();
    const double best = BestFixed(options);
    const AutoCandidate& chosen = choice->candidates[choice->chosen];
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", case " << i);
    const SimulateResult run = Simulated(options, choice->schedule);
    EXPECT_LE(run.makespan, best);
    EXPECT_EQ(run.makespan, chosen.makespan);
    EXPECT_TRUE(Fits(options, run));
    EXPECT_EQ(Verify(choice->schedule).ToStatus(), absl::OkStatus());
    faster += run.makespan < 0.99 * best ? 1 : 0;
  }
  // And it is worth its while: greedy lists win on uneven costs.
  EXPECT_GE(faster, 20);
}

}  // namespace
}  // namespace stagecoach::schedule
