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
  const auto plan = PlanJob(Spec(), nullptr);
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
        const auto plan = PlanJob(spec, nullptr);
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
  EXPECT_EQ(schedule::ToText(PlanJob(Spec(), nullptr)->schedule),
            schedule::ToText(PlanJob(Spec(), nullptr)->schedule));
}

TEST(PlanJobTest, RefusesASplitAndAKindThatDoNotFit) {
  JobSpec spec = Spec();
  spec.pipeline.split = {1, 1, 1, 1};
  EXPECT_EQ(PlanJob(spec, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
  spec = Spec();
  spec.pipeline.schedule = "no-such-kind";
  EXPECT_EQ(PlanJob(spec, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
  spec = Spec();
  spec.pipeline.stages_per_worker = 2;
  EXPECT_EQ(PlanJob(spec, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
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
  const auto original = PlanJob(gpipe, nullptr);
  ASSERT_TRUE(original.ok());
  const auto plan = PlanJob(SpecWithFile(original->schedule), nullptr);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(schedule::ToText(plan->schedule),
            schedule::ToText(original->schedule));
}

TEST_F(ScheduleFileTest, MustBeForTheSameNumbers) {
  const schedule::Schedule schedule = PlanJob(Spec(), nullptr)->schedule;
  JobSpec spec = SpecWithFile(schedule);
  spec.training.microbatches = 9;
  EXPECT_EQ(PlanJob(spec, nullptr).status(),
            absl::InvalidArgumentError(
                "\"" + spec.pipeline.schedule +
                "\" is for microbatches = 8, the spec says 9; set "
                "training.microbatches = 8"));
  spec = SpecWithFile(schedule);
  spec.pipeline.send_budget = 1;
  EXPECT_TRUE(absl::EndsWith(PlanJob(spec, nullptr).status().message(),
                             "set pipeline.send_budget = 2"));
  spec = SpecWithFile(schedule);
  spec.pipeline.workers = 2;
  EXPECT_TRUE(absl::EndsWith(PlanJob(spec, nullptr).status().message(),
                             "set pipeline.workers = 4"));
}

TEST_F(ScheduleFileTest, IsVerifiedLikeAnyOther) {
  schedule::Schedule schedule = PlanJob(Spec(), nullptr)->schedule;
  schedule.actions[1].pop_back();
  const absl::Status status = PlanJob(SpecWithFile(schedule), nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

// A head that costs as much as four layers.
ModelProfile LargeHead(int64_t layers) {
  LayerProfile layer;
  layer.forward_seconds = 0.01;
  layer.backward_seconds = 0.02;
  layer.backward_input_seconds = layer.backward_weight_seconds = 0.0125;
  layer.in_flight_bytes = 1000;
  ModelProfile profile;
  profile.layers.assign(static_cast<size_t>(layers), layer);
  profile.embedding.forward_seconds = 0.005;
  profile.head = layer;
  profile.head.forward_seconds *= 4;
  profile.head.backward_seconds *= 4;
  profile.head.backward_input_seconds *= 4;
  profile.head.backward_weight_seconds *= 4;
  return profile;
}

std::vector<int64_t> LayerCounts(const JobPlan& plan) {
  std::vector<int64_t> counts;
  for (const StageLayers& stage : plan.stages) {
    counts.push_back(stage.end - stage.begin);
  }
  return counts;
}

TEST(PlanJobTest, AProfileBalancesTheStages) {
  const ModelProfile profile = LargeHead(8);
  const auto plan = PlanJob(Spec(), &profile);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->measured);
  EXPECT_FALSE(plan->provisional);
  // 8 layers and a head of 4 over 4 stages: the largest is 5. The embedding
  // costs a little, so the first stage is not one of three.
  EXPECT_EQ(LayerCounts(*plan), (std::vector<int64_t>{2, 3, 2, 1}));
  // Seconds: 8 microbatches of the largest stage and the way through the rest.
  EXPECT_GT(plan->even_split_seconds, 1.1 * plan->simulated.makespan);
  EXPECT_GT(plan->simulated.makespan, 8 * 5 * 0.03);
}

TEST(PlanJobTest, WithoutOneAnAutomaticSplitIsProvisional) {
  const auto plan = PlanJob(Spec(), nullptr);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->provisional);
  EXPECT_FALSE(plan->measured);
  EXPECT_EQ(LayerCounts(*plan), (std::vector<int64_t>{2, 2, 2, 2}));
}

TEST(PlanJobTest, AGivenSplitStays) {
  JobSpec spec = Spec();
  spec.pipeline.split = {1, 1, 1, 5};
  const ModelProfile profile = LargeHead(8);
  const auto plan = PlanJob(spec, &profile);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(LayerCounts(*plan), (std::vector<int64_t>{1, 1, 1, 5}));
  EXPECT_EQ(plan->even_split_seconds, 0);
}

TEST(PlanJobTest, AutoIsNeverSlowerThanAKind) {
  JobSpec spec = Spec();
  spec.pipeline.schedule = "auto";
  spec.pipeline.stages_per_worker = 2;
  const ModelProfile profile = LargeHead(8);
  const auto chosen = PlanJob(spec, &profile);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_GT(chosen->schedules_tried, size_t{20});
  for (const char* kind : {"gpipe", "1f1b", "zb-h1", "zbv", "interleaved"}) {
    JobSpec fixed = spec;
    fixed.pipeline.schedule = kind;
    const bool two =
        std::string(kind) == "zbv" || std::string(kind) == "interleaved";
    fixed.pipeline.stages_per_worker = two ? 2 : 1;
    const auto plan = PlanJob(fixed, &profile);
    ASSERT_TRUE(plan.ok()) << kind << ": " << plan.status();
    EXPECT_LE(chosen->simulated.makespan, plan->simulated.makespan) << kind;
  }
}

TEST(PlanJobTest, AutoStandsForAKindUntilThereIsAProfile) {
  JobSpec spec = Spec();
  spec.pipeline.schedule = "auto";
  spec.pipeline.stages_per_worker = 4;
  const auto plan = PlanJob(spec, nullptr);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->provisional);
  EXPECT_EQ(plan->schedule.kind, "1f1b");
  // With a split given, V is what it is for.
  spec.pipeline.stages_per_worker = 2;
  spec.pipeline.split = {1, 1, 1, 1, 1, 1, 1, 1};
  const ModelProfile profile = LargeHead(8);
  const auto chosen = PlanJob(spec, &profile);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->schedule.stages_per_worker, 2);
}

}  // namespace
}  // namespace stagecoach::job
