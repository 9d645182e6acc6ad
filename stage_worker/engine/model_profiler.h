#ifndef STAGECOACH_STAGE_WORKER_ENGINE_MODEL_PROFILER_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_MODEL_PROFILER_H_

#include <functional>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "job/job_spec.h"
#include "job/model_profile.h"
#include "memory/accounting_allocator.h"
#include "stage_worker/data/data_source.h"
#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::worker {

struct ProfilerOptions {
  EngineFactory engine_factory;
  job::JobSpec spec;
  // All must outlive the call.
  DataSource* data = nullptr;
  memory::AccountingAllocator* allocator = nullptr;
  Clock* clock = nullptr;
  // Asked between actions; true ends the profile with kCancelled.
  std::function<bool()> cancelled = [] { return false; };
};

// Builds embedding, one layer, and head one after another and runs a real
// microbatch (the first of step 0) through each a few times: the shortest time
// of each action counts, which the machine's noise can only lengthen. The
// layers of the models that there are, are alike. Leaves nothing behind.
//
// Blocks for a second or two, longer only where one action takes that long. Run
// where the engine runs. Errors: the engine's and the data source's.
absl::StatusOr<job::ModelProfile> ProfileModel(const ProfilerOptions& options);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_MODEL_PROFILER_H_
