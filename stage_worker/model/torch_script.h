#ifndef STAGECOACH_STAGE_WORKER_MODEL_TORCH_SCRIPT_H_
#define STAGECOACH_STAGE_WORKER_MODEL_TORCH_SCRIPT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "job/job_spec.h"
#include "stage_worker/model/stage_model.h"

namespace stagecoach::worker {

// A stage from the TorchScript file `spec.model.path`, of the form that
// docs/plugins.md gives. The layers of other stages are read and let go.
// kInvalidArgument, with the file's name: it cannot be read or has another
// form.
absl::StatusOr<std::unique_ptr<StageModel>> NewTorchScriptStage(
    const job::JobSpec& spec, const StageAssignment& stage);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MODEL_TORCH_SCRIPT_H_
