#include "schedule/evaluation.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/simulator.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

Schedule Training(absl::string_view kind, int workers, int v, int microbatches,
                  int budget) {
  GenerateOptions shape;
  shape.workers = workers;
  shape.stages_per_worker = v;
  shape.microbatches = microbatches;
  const auto compute = Generate(kind, shape);
  EXPECT_TRUE(compute.ok()) << compute.status();
  LoweringOptions options;
  options.send_budget = budget;
  const auto lowered = Lower(*compute, options);
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  return *lowered;
}

// Every kind's placement, edges and depths carry it, whatever the shape.
TEST(EvaluationScheduleTest, FitsEveryTrainingSchedule) {
  for (const Generator& generator : Generators()) {
    if (!generator.trains) continue;
    const int only = generator.only_stages_per_worker;
    for (const int v : {only == 0 ? 1 : only, only == 0 ? 3 : only}) {
      for (const int workers : {1, 2, 4, 5}) {
        for (const int microbatches : {1, 3, 8}) {
          for (const int budget : {1, 2}) {
            const Schedule training =
                Training(generator.kind, workers, v, microbatches, budget);
            for (const int evaluated : {1, 4, 11}) {
              const auto schedule = EvaluationSchedule(training, evaluated);
              ASSERT_TRUE(schedule.ok())
                  << generator.kind << " P=" << workers << " V=" << v
                  << " M=" << microbatches << " K=" << budget
                  << " evaluated=" << evaluated << ": " << schedule.status();
              EXPECT_EQ(schedule->placement, training.placement);
              for (const EdgePlan& plan : schedule->edges) {
                bool found = false;
                for (const EdgePlan& other : training.edges) {
                  if (!(other.edge == plan.edge)) continue;
                  found = true;
                  EXPECT_EQ(plan.receive_depth, other.receive_depth);
                  EXPECT_EQ(plan.pool_slots, other.pool_slots);
                }
                EXPECT_TRUE(found) << ToString(plan.edge);
              }
            }
          }
        }
      }
    }
  }
}

// (P - 1) T of idle time, the table's bubble of forward-only.
TEST(EvaluationScheduleTest, FillsThePipeline) {
  const auto schedule = EvaluationSchedule(Training("1f1b", 4, 1, 8, 2), 16);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->kind, "forward-only");
  const auto simulated = Simulate(*schedule);
  ASSERT_TRUE(simulated.ok()) << simulated.status();
  EXPECT_DOUBLE_EQ(simulated->makespan, 16 + 3);
}

TEST(EvaluationScheduleTest, NeedsALoweredScheduleAndMicrobatches) {
  Schedule training = Training("1f1b", 2, 1, 4, 2);
  EXPECT_TRUE(
      absl::IsInvalidArgument(EvaluationSchedule(training, 0).status()));
  training.send_budget = 0;
  EXPECT_TRUE(
      absl::IsInvalidArgument(EvaluationSchedule(training, 4).status()));
}

}  // namespace
}  // namespace stagecoach::schedule
