#ifndef STAGECOACH_STAGE_WORKER_ENGINE_MEMORY_PROFILER_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_MEMORY_PROFILER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "job/job_spec.h"
#include "job/memory_profile.h"
#include "memory/accounting_allocator.h"
#include "stage_worker/data/data_source.h"
#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::worker {

struct MemoryProfilerOptions {
  // Freshly built from `spec` and `stages`: its optimizer's state is zero.
  StageEngine* engine = nullptr;
  job::JobSpec spec;
  std::vector<StageAssignment> stages;  // ascending
  DataSource* data = nullptr;
  // The engine's; nobody else of the process allocates meanwhile. Its peaks are
  // reset.
  memory::AccountingAllocator* allocator = nullptr;
};

// What one microbatch takes on each of the engine's stages, action by action,
// to the byte: runs one forward and both kinds of backward for each stage, then
// an update by gradients of zero with a learning rate of 0, which leaves the
// parameters as they are, to the bit. Gradients are zero afterwards.
//
// Blocks for two or three microbatches per stage, on the engine's thread.
// Errors: the engine's and the data source's.
absl::StatusOr<job::WorkerMemoryProfile> ProfileWorkerMemory(
    const MemoryProfilerOptions& options);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_MEMORY_PROFILER_H_
