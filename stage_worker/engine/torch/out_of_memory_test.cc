#include <gtest/gtest.h>

#include <string>

#include "stage_worker/engine/torch/torch_engine.h"
#include "stage_worker/engine/torch/torch_test_util.h"

// Its own process: the limit is set before the first allocation.
namespace stagecoach::worker {
namespace {

using absl::StatusCode;
using memory::AccountingAllocator;

constexpr int64_t kLimit = 12 << 20;

TEST(OutOfMemoryTest, NamesThePlaceAndLetsTheNextStepTry) {
  AccountingAllocator::Options limited;
  limited.limit_bytes = kLimit;
  AccountingAllocator::Process().Configure(limited);
  ASSERT_TRUE(InitTorch(TorchOptions()).ok());

  // 0.3 MiB of parameters; a microbatch in flight takes 2 to 3 MiB.
  job::JobSpec spec = TinySpec();
  spec.data.sequence_length = 64;
  spec.training.microbatch_size = 4;
  spec.training.microbatches = 16;
  PatternData data(spec);
  LocalPipeline::Options options;
  options.spec = spec;
  options.data = &data;
  options.factory = [](const EngineOptions& engine) {
    return NewTorchEngine(TorchOptions(), engine);
  };
  auto pipeline = LocalPipeline::Create(options);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  LocalPipeline& one_stage = **pipeline;

  ASSERT_TRUE(one_stage.BeginStep(StepIndex(3)).ok());
  const absl::Status all_at_once = one_stage.RunActions(GpipeOrder(1, 16));
  EXPECT_EQ(all_at_once.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(all_at_once.message().find("stage 0, step 3, microbatch "), 0u)
      << all_at_once;
  EXPECT_NE(all_at_once.message().find("out of memory"), std::string::npos)
      << all_at_once;
  EXPECT_LE(AccountingAllocator::Process().Stats().allocated_bytes.peak,
            kLimit);

  one_stage.engine(StageIndex(0)).Drop();
  EXPECT_EQ(CurrentBytes(memory::Category::kActivation), 0);
  const auto in_turn =
      one_stage.RunStep(StepIndex(3), OneForwardOneBackwardOrder(1, 16));
  EXPECT_TRUE(in_turn.ok()) << in_turn.status();
}

}  // namespace
}  // namespace stagecoach::worker
