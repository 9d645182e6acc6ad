#ifndef STAGECOACH_STAGE_WORKER_MODEL_DROPOUT_H_
#define STAGECOACH_STAGE_WORKER_MODEL_DROPOUT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace stagecoach::worker {

// Where in a training run a forward draws its masks.
struct DropoutPosition {
  int64_t seed = 0;
  int64_t step = 0;
  int64_t microbatch = 0;  // of the step, over the whole job
};

// What is dropped in a layer.
enum class DropoutSite {
  kEmbedding = 0,
  kAttention = 1,  // its weights
  kAttentionOutput = 2,
  kMlpOutput = 3,
};

// Sets each element to 0 with the given probability, and divides the others by
// 1 - probability. Which ones is a function of position, layer, site and the
// element's place alone (Philox 4x32-10, Salmon et al. 2011, with the position
// as counter): the same in a forward that is run again, on any number of
// threads and workers and for any split. The backward keeps one byte per
// element. Throws what torch throws.
at::Tensor Drop(const at::Tensor& x, double probability,
                const DropoutPosition& position, int64_t layer,
                DropoutSite site);

// The mask of it, bool, on the CPU: true where an element is dropped.
at::Tensor DropoutMask(at::IntArrayRef sizes, double probability,
                       const DropoutPosition& position, int64_t layer,
                       DropoutSite site);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MODEL_DROPOUT_H_
