#ifndef STAGECOACH_STAGE_WORKER_MODEL_LAYERS_H_
#define STAGECOACH_STAGE_WORKER_MODEL_LAYERS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "job/job_spec.h"
#include "stage_worker/engine/stage_engine.h"

// What the model families share, as plain ATen calls under autograd. They throw
// what torch throws, and std::invalid_argument for tensors that do not fit.
namespace stagecoach::worker {

at::Tensor Activate(job::Activation activation, const at::Tensor& x);

// Hidden states [rows, hidden], head [vocabulary, hidden] to [rows,
// vocabulary].
at::Tensor HeadLogits(const at::Tensor& rows, const at::Tensor& head);

// Sum of the cross entropies of all rows: hidden states [rows, hidden], head
// [vocabulary, hidden], targets [rows]. In pieces of `chunk` rows, if there are
// more (see ChunkedHeadLoss); 0: all at once.
at::Tensor HeadLoss(const at::Tensor& rows, const at::Tensor& head,
                    const at::Tensor& targets, int64_t chunk);

// What a stage is given: tokens [rows, sequence] or float32 hidden states
// [rows, sequence, hidden].
void CheckStageInput(const std::vector<at::Tensor>& inputs,
                     const at::Tensor& targets, const job::JobSpec& spec,
                     const StageAssignment& stage, absl::string_view model);

// kInvalidArgument for sizes that no stage can be built from.
absl::Status CheckStageSizes(const job::JobSpec& spec,
                             const StageAssignment& stage);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MODEL_LAYERS_H_
