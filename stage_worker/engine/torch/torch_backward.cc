#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "base/status.h"
#include "stage_worker/engine/torch/torch_stage_engine.h"
#include "stage_worker/engine/torch/torch_status.h"

// Of TorchEngine: backwards, whole and in halves, and the forwards that are run
// again for them.
namespace stagecoach::worker {

using schedule::Action;
using schedule::ActionKind;

// The same kernels over the same bytes: the same bits.
absl::Status TorchEngine::Recompute(const StageAssignment& stage,
                                    MicrobatchIndex microbatch) {
  SC_ASSIGN_OR_RETURN(const TokenBatch batch, ReadData(stage, microbatch));
  const auto kept = kept_inputs_.find(Key(stage.stage, microbatch));
  MicrobatchGraph graph;
  Tensors outputs =
      RunModel(stage, microbatch, std::move(kept->second), batch, &graph);
  kept_inputs_.erase(kept);
  for (const at::Tensor& output : outputs) graph.KeepOutput(output);
  graphs_[Key(stage.stage, microbatch)] = std::move(graph);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorRef>> TorchEngine::Backward(
    StageIndex stage, MicrobatchIndex microbatch,
    std::vector<TensorRef> output_gradients) {
  return RunBackward(Act(ActionKind::kBackward, stage, microbatch),
                     std::move(output_gradients));
}

absl::StatusOr<std::vector<TensorRef>> TorchEngine::BackwardInput(
    StageIndex stage, MicrobatchIndex microbatch,
    std::vector<TensorRef> output_gradients) {
  return RunBackward(Act(ActionKind::kBackwardInput, stage, microbatch),
                     std::move(output_gradients));
}

absl::StatusOr<std::vector<TensorRef>> TorchEngine::RunBackward(
    const Action& action, std::vector<TensorRef> output_gradients) {
  SC_RETURN_IF_ERROR(protocol_.Check(action, output_gradients.size()));
  SC_ASSIGN_OR_RETURN(const StageAssignment* const held,
                      protocol_.Find(action.stage));
  const std::string place = protocol_.Place(action.stage, action.microbatch);
  return CatchTorch(place, [&]() -> absl::StatusOr<std::vector<TensorRef>> {
    const memory::ScopedTag tag(ActivationTag(action.stage, action.microbatch));
    if (Recomputes(action.stage)) {
      SC_RETURN_IF_ERROR(Recompute(*held, action.microbatch));
    }
    const auto graph = graphs_.find(Key(action.stage, action.microbatch));
    Tensors gradients =
        OutputGradients(*held, std::exchange(output_gradients, {}));
    Tensors caught;
    OutputPlacement::Call call(PlacementOf(action.kind, action.stage),
                               std::exchange(offered_, std::nullopt));
    if (action.kind == ActionKind::kBackward) {
      caught = graph->second.Backward(std::move(gradients));
      graphs_.erase(graph);
    } else {
      caught = graph->second.BackwardInput(std::move(gradients));
    }
    call.Stop();
    std::vector<TensorRef> input_gradients =
        ReadyForWire(Key(action.stage, action.microbatch), &caught, &call);
    protocol_.Record(action);
    return input_gradients;
  });
}

Tensors TorchEngine::OutputGradients(
    const StageAssignment& stage,
    const std::vector<TensorRef>& received) const {
  Tensors gradients = TensorsOf(received);
  if (stage.last) {
    // Scaled here and not in the loss: the mean over the step's tokens.
    gradients.push_back(at::full(
        {}, loss_scale_ / static_cast<double>(protocol_.target_tokens()),
        at::TensorOptions().dtype(at::kFloat).device(device_)));
  }
  return gradients;
}

absl::Status TorchEngine::BackwardWeight(StageIndex stage,
                                         MicrobatchIndex microbatch) {
  const Action action = Act(ActionKind::kBackwardWeight, stage, microbatch);
  SC_RETURN_IF_ERROR(protocol_.Check(action, 0));
  return CatchTorch(protocol_.Place(stage, microbatch), [&] {
    const memory::ScopedTag tag(ActivationTag(stage, microbatch));
    const auto graph = graphs_.find(Key(stage, microbatch));
    graph->second.BackwardWeight();
    graphs_.erase(graph);
    protocol_.Record(action);
    return absl::OkStatus();
  });
}

}  // namespace stagecoach::worker
