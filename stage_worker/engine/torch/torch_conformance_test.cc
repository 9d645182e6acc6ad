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

INSTANTIATE_TEST_SUITE_P(Torch, EngineConformanceTest,
                         ::testing::Values(Torch()));

}  // namespace
}  // namespace stagecoach::worker
