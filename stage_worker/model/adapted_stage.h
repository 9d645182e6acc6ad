#ifndef STAGECOACH_STAGE_WORKER_MODEL_ADAPTED_STAGE_H_
#define STAGECOACH_STAGE_WORKER_MODEL_ADAPTED_STAGE_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "job/job_spec.h"
#include "stage_worker/model/stage_model.h"
#include "stagecoach/plugin.h"

namespace stagecoach::worker {

using NewOwnStage =
    std::function<absl::StatusOr<std::unique_ptr<plugin::Stage>>(
        const plugin::StageInfo& info)>;

// A stage that brings its model (spec.model.brings_stages()) as the engine
// wants one: its parameters in the engine's memory, its outputs checked.
// kInvalidArgument: `make` threw or made none, or parameters that are not as
// stagecoach/plugin.h says; messages begin with `spec.model.path`.
absl::StatusOr<std::unique_ptr<StageModel>> AdaptStage(
    const job::JobSpec& spec, const StageAssignment& stage,
    const NewOwnStage& make);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MODEL_ADAPTED_STAGE_H_
