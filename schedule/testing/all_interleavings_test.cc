#include "schedule/testing/all_interleavings.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/property_cases.h"
#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/testing/lists.h"
#include "schedule/testing/mutator.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule::testing {
namespace {

constexpr int64_t kMostStates = 20'000'000;

Schedule Lowered(const Schedule& compute, int send_budget) {
  LoweringOptions options;
  options.send_budget = send_budget;
  return *Lower(compute, options);
}

TEST(AllInterleavingsTest, OneWorkerHasOneOrder) {
  const Schedule schedule = Lowered(MakeSchedule(2, 1, {"0F0 0B0 0F1 0B1"}), 1);
  const Interleavings all = TryAllInterleavings(schedule, kMostStates);
  EXPECT_EQ(all.states, 5);
  EXPECT_TRUE(all.ends_well);
  EXPECT_EQ(all.outcomes, std::vector<std::vector<int>>({{4}}));
}

// w0: F AWAIT SEND RECV B; w1: RECV F B AWAIT SEND. Each alone, then the edges:
// counted by hand only in that both ends must be reached.
TEST(AllInterleavingsTest, TwoWorkersMeetInEveryOrderAndEndTheSame) {
  const Schedule schedule =
      Lowered(MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"}), 1);
  const Interleavings all = TryAllInterleavings(schedule, kMostStates);
  EXPECT_TRUE(all.all_tried);
  EXPECT_GT(all.states, 20);
  EXPECT_TRUE(all.ends_well);
  EXPECT_EQ(all.outcomes, std::vector<std::vector<int>>({{5, 5}}));
}

TEST(AllInterleavingsTest, SaysWhenThereAreTooMany) {
  const Schedule schedule =
      Lowered(MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"}), 1);
  EXPECT_FALSE(TryAllInterleavings(schedule, 10).all_tried);
}

TEST(AllInterleavingsTest, ADeadlockIsOneOutcomeToo) {
  // Without a receive granted ahead, M / P must not be more than K.
  Schedule schedule = Lowered(LoopedBreadthFirst(2, 2, 4), 1);
  for (EdgePlan& plan : schedule.edges) plan.receive_depth = 0;
  const Interleavings all = TryAllInterleavings(schedule, kMostStates);
  ASSERT_TRUE(all.all_tried);
  EXPECT_FALSE(all.ends_well);
  EXPECT_EQ(all.outcomes.size(), 1u);
  EXPECT_FALSE(Verify(schedule).ok);
}

TEST(AllInterleavingsTest, AWorkerStopsBeforeWhatMakesNoSense) {
  Schedule schedule = Lowered(MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"}), 1);
  std::swap(schedule.actions[1][1], schedule.actions[1][2]);  // B before F
  const Interleavings all = TryAllInterleavings(schedule, kMostStates);
  EXPECT_FALSE(all.ends_well);
  EXPECT_EQ(all.outcomes, std::vector<std::vector<int>>({{4 - 1, 1}}));
}

TEST(AllInterleavingsTest, ComputationsAloneLeadToTheSameOutcomes) {
  const uint32_t seed = 5;
  for (const Generator& kind : Generators()) {
    if (!kind.trains) continue;
    Mutator::Shape shape;
    shape.most_workers = 2;
    shape.most_microbatches = 2;
    shape.most_stages_per_worker = 1;
    Mutator mutator(seed, shape);
    Schedule schedule = mutator.Original(kind);
    for (int damage = 0; damage < 3; ++damage) {
      const Interleavings all = TryAllInterleavings(schedule, kMostStates);
      const Interleavings fewer =
          TryAllInterleavings(schedule, kMostStates, Computations::kAlone);
      EXPECT_LE(fewer.states, all.states);
      EXPECT_EQ(fewer.outcomes, all.outcomes) << kind.kind;
      EXPECT_EQ(fewer.ends_well, all.ends_well) << kind.kind;
      mutator.Mutate(&schedule);
    }
  }
}

// Every schedule with P, M <= 3 and the fewest stages that its kind has:
// whatever the order of events, all of it runs.
TEST(AllInterleavingsTest, EverySmallScheduleEndsWellInEveryOrder) {
  int schedules = 0;
  int64_t states = 0;
  for (const Generator& kind : Generators()) {
    if (!kind.trains) continue;
    GenerateOptions shape;
    shape.stages_per_worker = std::max(1, kind.only_stages_per_worker);
    for (int i = 0; i < 9; ++i) {
      shape.workers = 1 + i / 3;
      shape.microbatches = 1 + i % 3;
      SCOPED_TRACE(absl::StrCat(kind.kind, " P=", shape.workers,
                                " M=", shape.microbatches));
      const Schedule schedule = Lowered(*Generate(kind.kind, shape), 1 + i % 2);
      const Interleavings all = TryAllInterleavings(
          schedule, kMostStates,
          shape.stages_per_worker == 1 ? Computations::kInterleaved
                                       : Computations::kAlone);
      ASSERT_TRUE(all.all_tried);
      EXPECT_TRUE(all.ends_well);
      EXPECT_EQ(all.outcomes.size(), 1u);
      ++schedules;
      states += all.states;
    }
  }
  PrintCases(absl::StrCat("schedules, ", states, " states"), schedules, 0);
}

}  // namespace
}  // namespace stagecoach::schedule::testing
