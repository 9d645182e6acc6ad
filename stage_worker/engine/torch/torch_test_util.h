#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_TEST_UTIL_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_TEST_UTIL_H_

#include <memory>
#include <vector>

#include "job/job_spec.h"
#include "memory/accounting_allocator.h"
#include "stage_worker/engine/local_pipeline.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/model/stage_model.h"

// What tests of the torch engine share.
namespace stagecoach::worker {

// Starts torch on the CPU with freed blocks poisoned, once per test process.
void StartTorchForTests();

// Makes torch engines whose stages come from `models`; empty: GPT-2.
EngineFactory TorchFactory(StageModelFactory models = nullptr);

// Bytes of the process's allocator now.
int64_t CurrentBytes(memory::Category category);
int64_t PeakBytes(memory::Category category);

// A pipeline of torch engines and its data.
class TorchBench {
 public:
  TorchBench(const job::JobSpec& spec, int stages, int engines,
             StageModelFactory models = nullptr);

  LocalPipeline* operator->() { return pipeline_.get(); }
  StageEngine& engine(int stage) {
    return pipeline_->engine(StageIndex(stage));
  }
  // One training step, 1F1B.
  LocalStep Step(int step);

 private:
  const job::JobSpec spec_;
  PatternData data_;
  std::unique_ptr<LocalPipeline> pipeline_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_TEST_UTIL_H_
