#include "stage_worker/kernels/block_node.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <utility>

namespace stagecoach::worker::kernels {

namespace autograd = torch::autograd;

autograd::variable_list BlockNode::apply(autograd::variable_list&& gradients) {
  at::Tensor gradient = std::move(gradients[0]);
  gradients.clear();
  at::Tensor result = Backward(gradient.contiguous());
  pending_ = deferred_;
  if (num_outputs() == 0) return {};
  return {std::move(result)};
}

void BlockNode::RunWeights() {
  if (std::exchange(pending_, false)) AddWeightGradients();
}

void BlockNode::compiled_args(
    torch::dynamo::autograd::CompiledNodeArgs& arguments) const {
  for (const at::Tensor& tensor : Saved()) {
    if (tensor.defined()) arguments.collect(tensor);
  }
}

void AttachIfNeeded(const std::shared_ptr<BlockNode>& node,
                    const at::Tensor& input, at::Tensor* output) {
  if (!c10::GradMode::is_enabled()) return;
  const bool reached = input.defined() && input.requires_grad();
  if (!reached && !node->Trains()) return;
  if (input.defined()) {
    node->add_next_edge(autograd::impl::gradient_edge(input));
  }
  autograd::create_gradient_edge(*output, node);
}

at::Tensor Uninitialised(at::IntArrayRef sizes, at::ScalarType type) {
  return at::detail::empty_cpu(sizes, type);
}

}  // namespace stagecoach::worker::kernels
