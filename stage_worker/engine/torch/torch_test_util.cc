#include "stage_worker/engine/torch/torch_test_util.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "stage_worker/engine/torch/torch_engine.h"

namespace stagecoach::worker {

using memory::AccountingAllocator;

void StartTorchForTests() {
  static const bool started = [] {
    AccountingAllocator::Options options;
    options.poison_freed = true;
    AccountingAllocator::Process().Configure(options);
    const absl::Status status = InitTorch(TorchOptions());
    EXPECT_TRUE(status.ok()) << status;
    return status.ok();
  }();
  if (!started) std::abort();
}

EngineFactory TorchFactory(StageModelFactory models) {
  StartTorchForTests();
  TorchOptions torch;
  torch.mapping_directory = ::testing::TempDir();
  torch.model_factory = std::move(models);
  return [torch](const EngineOptions& options) {
    return NewTorchEngine(torch, options);
  };
}

int64_t CurrentBytes(memory::Category category) {
  return AccountingAllocator::Process()
      .Stats()
      .categories[static_cast<size_t>(category)]
      .current;
}

int64_t PeakBytes(memory::Category category) {
  return AccountingAllocator::Process()
      .Stats()
      .categories[static_cast<size_t>(category)]
      .peak;
}

TorchBench::TorchBench(const job::JobSpec& spec, int stages, int engines,
                       StageModelFactory models)
    : spec_(spec), data_(spec) {
  LocalPipeline::Options options;
  options.spec = spec;
  options.stages = stages;
  options.engines = engines;
  options.factory = TorchFactory(std::move(models));
  options.data = &data_;
  auto pipeline = LocalPipeline::Create(options);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  pipeline_ = std::move(pipeline).value();
}

LocalStep TorchBench::Step(int step) {
  const auto result = pipeline_->RunStep(
      StepIndex(step),
      OneForwardOneBackwardOrder(
          pipeline_->stages(), static_cast<int>(spec_.training.microbatches)));
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *result : LocalStep();
}

}  // namespace stagecoach::worker
