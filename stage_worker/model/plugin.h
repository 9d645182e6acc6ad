#ifndef STAGECOACH_STAGE_WORKER_MODEL_PLUGIN_H_
#define STAGECOACH_STAGE_WORKER_MODEL_PLUGIN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "job/job_spec.h"
#include "stage_worker/model/stage_model.h"

namespace stagecoach::worker {

// A stage from the library `spec.model.path` (stagecoach/plugin.h), which stays
// loaded. kNotFound: it cannot be loaded, with the loader's words;
// kFailedPrecondition: it is no plugin, or one of another interface or
// libtorch; kInvalidArgument: it makes no stage, or parameters that are not as
// they must be.
absl::StatusOr<std::unique_ptr<StageModel>> NewPluginStage(
    const job::JobSpec& spec, const StageAssignment& stage);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MODEL_PLUGIN_H_
