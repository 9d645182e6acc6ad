#include "job/plan.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "schedule/formats/formats.h"

namespace stagecoach::job {
namespace {

JobSpec Spec() {
  JobSpec spec;
  spec.name = "plan";
  spec.model.layers = 8;
  spec.model.hidden = 64;
  spec.model.heads = 4;
  spec.data.sequence_length = 32;
  spec.training.microbatch_size = 2;
  spec.training.microbatches = 8;
  spec.pipeline.workers = 4;
  return spec;
}

TEST(PlanJobTest, LowersAndVerifiesTheKind) {
  const auto plan = PlanJob(Spec());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->stages.size(), size_t{4});
  EXPECT_EQ(plan->schedule.kind, "1f1b");
  EXPECT_EQ(plan->schedule.send_budget, 2);
  EXPECT_TRUE(plan->verdict.ok);
  EXPECT_TRUE(plan->verdict.ascending_accumulation);
  // Stage s of 1F1B has min(M, P - s) microbatches in flight.
  EXPECT_EQ(plan->verdict.peak_in_flight, (std::vector<int>{4, 3, 2, 1}));
  // (P - 1) T of idle time in (M + P - 1) T.
  EXPECT_DOUBLE_EQ(plan->simulated.bubble_ratio, 3.0 / 11);
  EXPECT_EQ(plan->boundary.ToString(), "float32[2, 32, 64]");
  EXPECT_EQ(plan->target_tokens_per_step, 8 * 2 * 32);
}

TEST(PlanJobTest, EveryBuiltKindWorksTiedAndUntied) {
  for (const char* kind : {"gpipe", "1f1b", "interleaved"}) {
    for (const bool tied : {false, true}) {
      for (const int64_t workers : {1, 2, 4}) {
        JobSpec spec = Spec();
        spec.pipeline.schedule = kind;
        spec.pipeline.workers = workers;
        spec.pipeline.stages_per_worker =
            std::string(kind) == "interleaved" ? 2 : 1;
        spec.model.tie_embeddings = tied;
        const auto plan = PlanJob(spec);
        ASSERT_TRUE(plan.ok())
            << kind << " " << tied << " " << workers << ": " << plan.status();
        int reductions = 0;
        for (const auto& list : plan->schedule.actions) {
          for (const schedule::Action& action : list) {
            reductions += action.kind == schedule::ActionKind::kReduceTied;
          }
        }
        EXPECT_EQ(reductions, tied ? (workers == 1 ? 1 : 2) : 0);
      }
    }
  }
}

TEST(PlanJobTest, IsDeterministic) {
  EXPECT_EQ(schedule::ToText(PlanJob(Spec())->schedule),
            schedule::ToText(PlanJob(Spec())->schedule));
}

TEST(PlanJobTest, RefusesASplitAndAKindThatDoNotFit) {
  JobSpec spec = Spec();
  spec.pipeline.split = {1, 1, 1, 1};
  EXPECT_EQ(PlanJob(spec).status().code(), absl::StatusCode::kInvalidArgument);
  spec = Spec();
  spec.pipeline.schedule = "no-such-kind";
  EXPECT_EQ(PlanJob(spec).status().code(), absl::StatusCode::kInvalidArgument);
  spec = Spec();
  spec.pipeline.stages_per_worker = 2;
  EXPECT_EQ(PlanJob(spec).status().code(), absl::StatusCode::kInvalidArgument);
}

class ScheduleFileTest : public testing::Test {
 protected:
  // Writes a plan's schedule, changed by the test, and refers to it.
  JobSpec SpecWithFile(const schedule::Schedule& contents) {
    JobSpec spec = Spec();
    spec.pipeline.schedule = testing::TempDir() + "/plan_test_schedule.txt";
    std::ofstream(spec.pipeline.schedule) << schedule::ToText(contents);
    return spec;
  }
};

TEST_F(ScheduleFileTest, TakesTheScheduleOfTheFile) {
  JobSpec gpipe = Spec();
  gpipe.pipeline.schedule = "gpipe";
  const auto original = PlanJob(gpipe);
  ASSERT_TRUE(original.ok());
  const auto plan = PlanJob(SpecWithFile(original->schedule));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(schedule::ToText(plan->schedule),
            schedule::ToText(original->schedule));
}

TEST_F(ScheduleFileTest, MustBeForTheSameNumbers) {
  const schedule::Schedule schedule = PlanJob(Spec())->schedule;
  JobSpec spec = SpecWithFile(schedule);
  spec.training.microbatches = 9;
  EXPECT_EQ(PlanJob(spec).status(),
            absl::InvalidArgumentError(
                "\"" + spec.pipeline.schedule +
                "\" is for microbatches = 8, the spec says 9; set "
                "training.microbatches = 8"));
  spec = SpecWithFile(schedule);
  spec.pipeline.send_budget = 1;
  EXPECT_TRUE(absl::EndsWith(PlanJob(spec).status().message(),
                             "set pipeline.send_budget = 2"));
  spec = SpecWithFile(schedule);
  spec.pipeline.workers = 2;
  EXPECT_TRUE(absl::EndsWith(PlanJob(spec).status().message(),
                             "set pipeline.workers = 4"));
}

TEST_F(ScheduleFileTest, IsVerifiedLikeAnyOther) {
  schedule::Schedule schedule = PlanJob(Spec())->schedule;
  schedule.actions[1].pop_back();
  const absl::Status status = PlanJob(SpecWithFile(schedule)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stagecoach::job
