#ifndef STAGECOACH_STAGE_WORKER_MODEL_RECOMPUTED_LAYER_H_
#define STAGECOACH_STAGE_WORKER_MODEL_RECOMPUTED_LAYER_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

namespace stagecoach::worker {

// A layer of a model: one tensor in, one out.
using Layer = std::function<at::Tensor(const at::Tensor& input)>;

// Runs `layer` and keeps nothing of it but its input: the backward runs it
// again, with the same kernels over the same bytes, and so with the same bits.
// Simply runs it without autograd, or where neither the input has a gradient
// nor a parameter of the layer `trains`.
//
// `layer` is called up to twice, the second time during the backward, and must
// do the same then whatever has run in between: what it depends on beside
// parameters and input (a microbatch's number) it must hold; `mask` is what it
// holds of the microbatch's tensors, for the account. What it refers to must
// outlive the graph. Single-executor.
at::Tensor RunRecomputed(const Layer& layer, const at::Tensor& input,
                         bool trains,
                         const std::optional<at::Tensor>& mask = {});

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MODEL_RECOMPUTED_LAYER_H_
