#include "stage_worker/engine/conformance.h"
#include "stage_worker/engine/torch/torch_test_util.h"

namespace stagecoach::worker {
namespace {

EngineCase Torch() {
  EngineCase engine;
  engine.name = "torch";
  engine.factory = [](const EngineOptions& options) {
    return TorchFactory()(options);
  };
  return engine;
}

EngineCase TorchLlama() {
  EngineCase engine;
  engine.name = "torch_llama";
  engine.factory = [](const EngineOptions& options) {
    EngineOptions llama = options;
    llama.spec.model.architecture = job::Architecture::kLlama;
    return TorchFactory()(llama);
  };
  return engine;
}

INSTANTIATE_TEST_SUITE_P(Torch, EngineConformanceTest,
                         ::testing::Values(Torch(), TorchLlama()));

}  // namespace
}  // namespace stagecoach::worker
