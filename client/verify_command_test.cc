#include "client/verify_command.h"

#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

TEST(SingleProcessSpecTest, KeepsTheTrainingAndDropsThePipeline) {
  job::JobSpec spec;
  spec.name = "tiny";
  spec.seed = 11;
  spec.model.layers = 6;
  spec.training.steps = 3;
  spec.training.microbatches = 5;
  spec.pipeline.workers = 3;
  spec.pipeline.stages_per_worker = 2;
  spec.pipeline.schedule = "interleaved";
  spec.pipeline.split = {1, 1, 1, 1, 1, 1};
  spec.pipeline.release = job::ReleasePolicy::kNever;
  spec.pipeline.transport = job::TransportKind::kShm;
  spec.memory.limit_bytes = 1 << 20;
  spec.checkpoint.directory = "/checkpoints";
  const job::JobSpec single = SingleProcessSpec(spec);
  EXPECT_EQ(single.seed, 11);
  EXPECT_EQ(single.model.layers, 6);
  EXPECT_EQ(single.training.steps, 3);
  EXPECT_EQ(single.training.microbatches, 5);
  EXPECT_EQ(single.pipeline.workers, 1);
  EXPECT_EQ(single.pipeline.stages_per_worker, 1);
  EXPECT_EQ(single.pipeline.schedule, "gpipe");
  EXPECT_TRUE(single.pipeline.split.empty());
  EXPECT_EQ(single.pipeline.transport, job::TransportKind::kAuto);
  EXPECT_EQ(single.memory.limit_bytes, 0);
  EXPECT_TRUE(single.checkpoint.directory.empty());
}

}  // namespace
}  // namespace stagecoach::client
