#include "job/memory_fit.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace stagecoach::job {
namespace {

CategoryBytes Bytes(int64_t bytes) {
  CategoryBytes result;
  result.Add(MemoryCategory::kActivation, bytes);
  return result;
}

JobSpec Spec(const std::string& schedule) {
  JobSpec spec;
  spec.name = "fit";
  spec.model.layers = 2;
  spec.model.hidden = 64;
  spec.model.heads = 4;
  spec.model.tie_embeddings = false;
  spec.data.sequence_length = 32;
  spec.training.microbatches = 8;
  spec.training.microbatch_size = 4;
  spec.pipeline.workers = 2;
  spec.pipeline.schedule = schedule;
  return spec;
}

// Two stages that keep 1 MiB of a microbatch, and pools as the plan has them.
MemoryQuestion Measured(const JobSpec& spec, const JobPlan& plan) {
  std::vector<WorkerMemoryProfile> workers(2);
  for (int i = 0; i < 2; ++i) {
    StageMemory stage;
    stage.stage = StageIndex(i);
    stage.retained = Bytes(1 << 20);
    stage.forward_peak = Bytes(1 << 20);
    stage.splits = true;
    workers[static_cast<size_t>(i)].stages.push_back(stage);
  }
  return MemoryQuestionOf(spec, plan, workers);
}

TEST(ChangeThatFitsTest, TakesAScheduleWithLessInFlight) {
  JobSpec spec = Spec("gpipe");
  // 1F1B has two in flight on the first worker, GPipe eight.
  spec.memory.limit_bytes = 4 << 20;
  const JobPlan plan = PlanJob(spec, nullptr).value();
  EXPECT_EQ(ChangeThatFits(spec, plan, Measured(spec, plan)),
            "--set pipeline.schedule=1f1b");
}

TEST(ChangeThatFitsTest, TakesASmallerSendBudgetFirst) {
  JobSpec spec = Spec("1f1b");
  spec.pipeline.send_budget = 2;
  const JobPlan plan = PlanJob(spec, nullptr).value();
  MemoryQuestion measured = Measured(spec, plan);
  for (WorkerMemoryProfile& worker : measured.profiles) {
    worker.stages[0].output = Bytes(1 << 20);
    worker.stages[0].forward_peak = Bytes(2 << 20);
  }
  const auto wide = PredictMemory(measured).value();
  spec.memory.limit_bytes = wide[0].high.total - 1;
  EXPECT_EQ(ChangeThatFits(spec, plan, measured),
            "--set pipeline.send_budget=1");
}

TEST(ChangeThatFitsTest, RecomputesBeforeItChangesNumbers) {
  JobSpec spec = Spec("1f1b");
  // One graph at a time.
  spec.memory.limit_bytes = (1 << 20) + (1 << 19);
  const JobPlan plan = PlanJob(spec, nullptr).value();
  EXPECT_EQ(ChangeThatFits(spec, plan, Measured(spec, plan)),
            "--set memory.recompute=full");
}

// Half of the layers is enough, and costs less time than all of them.
TEST(ChangeThatFitsTest, RecomputesNoMoreThanItMust) {
  JobSpec spec = Spec("1f1b");
  spec.model.layers = 8;
  spec.pipeline.split = {4, 4};
  const JobPlan plan = PlanJob(spec, nullptr).value();
  // Two graphs of 1 MiB in flight on the first worker. A layer keeps 256 KiB,
  // its input of 32 KiB among them.
  const MemoryQuestion measured = Measured(spec, plan);
  const int64_t pools = measured.receive_pool_bytes[0];
  spec.memory.limit_bytes = pools + (2 << 20) - (1 << 18);
  EXPECT_EQ(ChangeThatFits(spec, plan, measured),
            "--set memory.recompute=every-2");
  spec.memory.limit_bytes = pools + (1 << 20) + (1 << 17);
  EXPECT_EQ(ChangeThatFits(spec, plan, measured),
            "--set memory.recompute=full");
}

TEST(ChangeThatFitsTest, MakesMicrobatchesSmallerWhenNothingElseFits) {
  JobSpec spec = Spec("1f1b");
  spec.memory.recompute = "full";
  spec.memory.limit_bytes = (1 << 20) + (1 << 19);
  const JobPlan plan = PlanJob(spec, nullptr).value();
  EXPECT_EQ(ChangeThatFits(spec, plan, Measured(spec, plan)),
            "--set training.microbatch_size=2 --set training.microbatches=16");
}

TEST(ChangeThatFitsTest, SaysWhenNothingFits) {
  JobSpec spec = Spec("1f1b");
  spec.memory.limit_bytes = 1000;
  const JobPlan plan = PlanJob(spec, nullptr).value();
  OverLimit over;
  over.question = Measured(spec, plan);
  over.interval = PredictMemory(over.question).value()[0];
  EXPECT_EQ(ChangeThatFits(spec, plan, over.question), "");
  const std::string text = DescribeOverLimit(spec, plan, "w0", over);
  EXPECT_TRUE(absl::StartsWith(text, "worker w0 needs at least 2.")) << text;
  EXPECT_TRUE(absl::StrContains(text, "memory.limit is 1000 B")) << text;
  EXPECT_TRUE(absl::StrContains(text, "use more pipeline.workers")) << text;
}

TEST(ChangeThatFitsTest, ASplitThatWasMeasuredIsWrittenOut) {
  JobSpec spec = Spec("gpipe");
  spec.model.layers = 8;
  spec.memory.limit_bytes = 4 << 20;
  const JobPlan plan = PlanJob(spec, nullptr).value();
  EXPECT_EQ(ChangeThatFits(spec, plan, Measured(spec, plan)),
            "--set pipeline.schedule=1f1b --set pipeline.split=[4,4]");
}

}  // namespace
}  // namespace stagecoach::job
