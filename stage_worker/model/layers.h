#ifndef STAGECOACH_STAGE_WORKER_MODEL_LAYERS_H_
#define STAGECOACH_STAGE_WORKER_MODEL_LAYERS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "job/job_spec.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/model/dropout.h"
#include "stage_worker/model/stage_model.h"

// What the model families share, as plain ATen calls under autograd. They throw
// what torch throws, and std::invalid_argument for tensors that do not fit.
namespace stagecoach::worker {

at::Tensor Activate(job::Activation activation, const at::Tensor& x);

// Which keys a query sees, bool [rows, 1, sequence, sequence]: those of its own
// document, up to itself. `documents`: int64 [rows, sequence].
at::Tensor DocumentMask(const at::Tensor& documents);

// The same for `length` queries behind `past` tokens, [length, past + length]:
// a query sees up to itself, and no more than `window` (0: all).
at::Tensor CausalMask(int64_t length, int64_t past, int64_t window);

// Puts keys and values behind those of the cache, and takes all of them.
void AppendTo(LayerCache* cache, at::Tensor* keys, at::Tensor* values);

// What attention adds to its scores: 0 where `seen`, else minus infinity. Made
// once for all blocks: given booleans, attention makes its own in each and
// keeps it for the backward.
at::Tensor AdditiveMask(const at::Tensor& seen);

// Where a layer drops; without a position: nowhere.
struct LayerDropout {
  std::optional<DropoutPosition> position;
  int64_t layer = 0;

  at::Tensor operator()(const at::Tensor& x, double probability,
                        DropoutSite site) const {
    return position.has_value() ? Drop(x, probability, *position, layer, site)
                                : x;
  }
};

// What a layer takes beside its input, of one forward. A layer that is run
// again keeps it.
struct LayerInputs {
  LayerDropout drop;
  std::optional<at::Tensor> mask;  // see AttentionOptions
};

struct AttentionOptions {
  // Which keys a query sees: booleans, or to be added; empty: those up to
  // itself.
  std::optional<at::Tensor> mask;
  std::optional<double> scale;  // of scores; empty: 1 / sqrt(head width)
  double dropout = 0;           // of weights
};

// [rows, heads, sequence, width] each. The library's kernel, which never lets
// the weights stand whole; where weights are dropped, one op after the other.
at::Tensor Attend(const at::Tensor& query, const at::Tensor& key,
                  const at::Tensor& value, const AttentionOptions& options,
                  const LayerDropout& drop);

// Hidden states [rows, hidden], head [vocabulary, hidden] to [rows,
// vocabulary].
at::Tensor HeadLogits(const at::Tensor& rows, const at::Tensor& head);

// Sum of the cross entropies of all rows: hidden states [rows, hidden], head
// [vocabulary, hidden], targets [rows]. In pieces of `chunk` rows, if there are
// more (see ChunkedHeadLoss); 0: all at once.
at::Tensor HeadLoss(const at::Tensor& rows, const at::Tensor& head,
                    const at::Tensor& targets, int64_t chunk);

// What a stage is given: tokens [rows, sequence] or hidden states [rows,
// sequence, hidden] in the type that the job computes in.
void CheckStageInput(const std::vector<at::Tensor>& inputs,
                     const at::Tensor& targets, const job::JobSpec& spec,
                     const StageAssignment& stage, absl::string_view model);

// kInvalidArgument for sizes that no stage can be built from.
absl::Status CheckStageSizes(const job::JobSpec& spec,
                             const StageAssignment& stage);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MODEL_LAYERS_H_
