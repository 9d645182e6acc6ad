#include "stage_worker/model/compute_type.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <memory>
#include <string>
#include <utility>

namespace stagecoach::worker {
namespace {

namespace autograd = torch::autograd;

class RoundedParameterBackward final : public autograd::Node {
 public:
  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    at::Tensor gradient = std::move(gradients[0]);
    if (gradient.defined()) gradient = gradient.to(at::kFloat);
    return {std::move(gradient)};
  }
  std::string name() const override { return "RoundedParameterBackward"; }
  // It keeps nothing.
  void compiled_args(
      torch::dynamo::autograd::CompiledNodeArgs& /*args*/) const override {}
};

}  // namespace

at::ScalarType ScalarTypeOf(job::Precision precision) {
  switch (precision) {
    case job::Precision::kFloat32:
      break;
    case job::Precision::kBFloat16:
      return at::kBFloat16;
    case job::Precision::kFloat16:
      return at::kHalf;
  }
  return at::kFloat;
}

at::Tensor InComputeType(const StageParameter& parameter) {
  if (!parameter.rounded.defined()) return parameter.value;
  at::Tensor rounded = parameter.rounded.detach();
  if (!at::GradMode::is_enabled() || !parameter.value.requires_grad()) {
    return rounded;
  }
  auto node = std::make_shared<RoundedParameterBackward>();
  node->set_next_edges(autograd::collect_next_edges(parameter.value));
  autograd::create_gradient_edge(rounded, std::move(node));
  return rounded;
}

}  // namespace stagecoach::worker
