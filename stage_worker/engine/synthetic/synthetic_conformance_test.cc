#include "memory/accounting_allocator.h"
#include "stage_worker/engine/conformance.h"
#include "stage_worker/engine/synthetic/synthetic_engine.h"

namespace stagecoach::worker {
namespace {

EngineCase Synthetic() {
  EngineCase engine;
  engine.name = "synthetic";
  engine.factory = [](const EngineOptions& options) {
    return NewSyntheticEngine(SyntheticOptions(),
                              &memory::AccountingAllocator::Process(), options);
  };
  return engine;
}

INSTANTIATE_TEST_SUITE_P(Synthetic, EngineConformanceTest,
                         ::testing::Values(Synthetic()));

}  // namespace
}  // namespace stagecoach::worker
