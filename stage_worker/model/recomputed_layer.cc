#include "stage_worker/model/recomputed_layer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stage_worker/engine/torch/autograd_edges.h"
#include "stage_worker/kernels/block_node.h"

namespace stagecoach::worker {
namespace {

// Stands for the whole layer in the stage's graph. Its own graph is there only
// from its backward on; between the halves of a split one it is kept for the
// weights.
class RecomputedLayer final : public kernels::BlockNode {
 public:
  RecomputedLayer(Layer layer, at::Tensor input, bool trains, at::Tensor mask)
      : layer_(std::move(layer)),
        input_(std::move(input)),
        trains_(trains),
        mask_(std::move(mask)) {}

  std::string name() const override { return "RecomputedLayer"; }
  void release_variables() override {
    layer_ = nullptr;
    input_.reset();
    mask_.reset();
  }

 protected:
  std::vector<at::Tensor> Saved() const override {
    if (!graph_.has_value()) return {input_, mask_};
    return graph_->HeldTensors();
  }

  at::Tensor Backward(at::Tensor output_gradient) override {
    graph_.emplace();
    {
      // Autograd's engine has switched it off.
      const at::AutoGradMode grad_mode(true);
      graph_->KeepOutput(layer_(graph_->MarkInput(input_)));
    }
    release_variables();
    std::vector<at::Tensor> gradients = {std::move(output_gradient)};
    if (deferred()) {
      return graph_->BackwardInput(std::move(gradients)).front();
    }
    gradients = graph_->Backward(std::move(gradients));
    graph_.reset();
    return std::move(gradients.front());
  }

  bool Trains() const override { return trains_; }
  void AddWeightGradients() override {
    graph_->BackwardWeight();
    graph_.reset();
  }

 private:
  Layer layer_;
  at::Tensor input_;
  const bool trains_;
  at::Tensor mask_;  // that layer_ holds
  std::optional<MicrobatchGraph> graph_;
};

}  // namespace

at::Tensor RunRecomputed(const Layer& layer, const at::Tensor& input,
                         bool trains, const std::optional<at::Tensor>& mask) {
  if (!at::GradMode::is_enabled() || (!trains && !input.requires_grad())) {
    return layer(input);
  }
  auto node = std::make_shared<RecomputedLayer>(layer, input.detach(), trains,
                                                mask.value_or(at::Tensor()));
  at::Tensor output;
  {
    const at::NoGradGuard no_grad;
    output = layer(input.detach());
  }
  kernels::AttachIfNeeded(node, input, &output);
  return output;
}

}  // namespace stagecoach::worker
