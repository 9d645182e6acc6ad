#include "coordinator/planned_job.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "coordinator/test_spec.h"
#include "gtest/gtest.h"
#include "schedule/formats/formats.h"

namespace stagecoach::coordinator {
namespace {

TEST(PlannedJobTest, ScheduleGoesOverTheWireUnchanged) {
  const auto planned = PlanForWorkers(TinyJob(4), nullptr, job::PlanJob);
  ASSERT_TRUE(planned.ok()) << planned.status();
  const auto back = schedule::FromProto(planned->schedule);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(schedule::ToText(*back), schedule::ToText(planned->plan.schedule));
}

TEST(PlannedJobTest, IdFollowsFromTheSchedule) {
  const auto one = PlanForWorkers(TinyJob(4), nullptr, job::PlanJob);
  const auto again = PlanForWorkers(TinyJob(4), nullptr, job::PlanJob);
  const auto other = PlanForWorkers(TinyJob(4, 2, 3), nullptr, job::PlanJob);
  ASSERT_TRUE(one.ok() && again.ok() && other.ok());
  EXPECT_EQ(one->schedule_id.size(), 16u);
  EXPECT_EQ(one->schedule_id, again->schedule_id);
  EXPECT_NE(one->schedule_id, other->schedule_id);
}

TEST(PlannedJobTest, OnlyOutputsThatCrossTheWireHaveBytes) {
  const auto planned = PlanForWorkers(TinyJob(4), nullptr, job::PlanJob);
  ASSERT_TRUE(planned.ok()) << planned.status();
  const std::vector<StagePlan> stages = StagePlansOf(planned->plan);
  ASSERT_EQ(stages.size(), 4u);
  // microbatch 2 x sequence 4 x hidden 8, float32
  EXPECT_EQ(stages[0].output_bytes, 2 * 4 * 8 * 4);
  EXPECT_EQ(stages[2].output_bytes, 2 * 4 * 8 * 4);
  EXPECT_EQ(stages[3].output_bytes, 0);
  EXPECT_EQ(stages[1].layer_begin, 2);
  EXPECT_EQ(stages[1].layer_end, 4);
  EXPECT_EQ(stages[1].worker, 1);
}

TEST(PlannedJobTest, OneWorkerPutsNothingOnTheWire) {
  const auto planned = PlanForWorkers(TinyJob(1), nullptr, job::PlanJob);
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(StagePlansOf(planned->plan)[0].output_bytes, 0);
}

TEST(PlannedJobTest, RefusesNumbersThatNoPlanHas) {
  for (const auto& spoil : std::vector<void (*)(job::JobSpec&)>{
           [](job::JobSpec& spec) { spec.training.steps = 0; },
           [](job::JobSpec& spec) { spec.training.microbatches = 0; },
           [](job::JobSpec& spec) { spec.training.microbatch_size = -1; },
           [](job::JobSpec& spec) { spec.data.sequence_length = 0; },
           [](job::JobSpec& spec) { spec.pipeline.workers = 0; },
           [](job::JobSpec& spec) { spec.pipeline.workers = int64_t{1} << 40; },
           [](job::JobSpec& spec) { spec.pipeline.stages_per_worker = 0; },
           [](job::JobSpec& spec) { spec.pipeline.send_budget = 0; }}) {
    job::JobSpec spec = TinyJob(4);
    spoil(spec);
    EXPECT_EQ(PlanForWorkers(spec, nullptr, job::PlanJob).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(PlannedJobTest, RefusesAScheduleLargerThanAMessage) {
  const auto planned = PlanForWorkers(
      TinyJob(1), nullptr,
      [](const job::JobSpec&,
         const job::ModelProfile*) -> absl::StatusOr<job::JobPlan> {
        job::JobPlan plan;
        plan.stages.resize(1);
        plan.schedule.workers = 1;
        plan.schedule.placement.resize(1);
        plan.schedule.actions.resize(1);
        schedule::Action action;
        action.microbatch = MicrobatchIndex(1'000'000);
        plan.schedule.actions[0].assign(1'000'000, action);
        return plan;
      });
  EXPECT_EQ(planned.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(planned.status().message(),
                                "fewer training.microbatches"))
      << planned.status();
}

}  // namespace
}  // namespace stagecoach::coordinator
