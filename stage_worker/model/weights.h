#ifndef STAGECOACH_STAGE_WORKER_MODEL_WEIGHTS_H_
#define STAGECOACH_STAGE_WORKER_MODEL_WEIGHTS_H_

#include "absl/status/status.h"
#include "job/job_spec.h"
#include "stage_worker/model/stage_model.h"

namespace stagecoach::worker {

// Lets the parameters of a stage begin with the tensors of the folder
// `spec.model.checkpoint`. Only headers are read now, and only the stage's
// tensors when the parameters are filled. Names may lack the prefix of the
// whole model ("h.0.ln_1.weight"), as in files of GPT2Model or LlamaModel.
//
// kNotFound: a file or tensor that is missing; kInvalidArgument: a damaged
// file, a tensor of another shape or of integers, or one of the folder that the
// model does not have. Messages name tensor and file.
absl::Status StartFromCheckpoint(const job::JobSpec& spec, StageModel* model);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MODEL_WEIGHTS_H_
