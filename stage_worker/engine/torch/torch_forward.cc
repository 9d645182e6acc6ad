#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "stage_worker/engine/torch/torch_stage_engine.h"
#include "stage_worker/engine/torch/torch_status.h"
#include "stage_worker/engine/torch/torch_tensor.h"

// Of TorchEngine: forwards, and outputs that are to leave.
namespace stagecoach::worker {

using schedule::Action;
using schedule::ActionKind;

namespace {

at::Tensor CopyTokens(const std::vector<int64_t>& tokens,
                      const TokenBatch& batch, const at::Device& device) {
  const int64_t expected = batch.rows * batch.sequence_length;
  if (static_cast<int64_t>(tokens.size()) != expected) {
    throw std::invalid_argument(
        absl::StrCat(tokens.size(),
                     " tokens from the data source, not rows x "
                     "sequence length = ",
                     expected));
  }
  at::Tensor copy = at::empty({batch.rows, batch.sequence_length}, at::kLong);
  std::copy(tokens.begin(), tokens.end(), copy.mutable_data_ptr<int64_t>());
  return copy.to(device);
}

}  // namespace

absl::StatusOr<TokenBatch> TorchEngine::ReadData(const StageAssignment& stage,
                                                 MicrobatchIndex microbatch) {
  // Every stage with attention asks where documents end.
  if (!stage.first && !stage.last && !isolated_) return TokenBatch();
  return protocol_.evaluating()
             ? evaluation_data_->Read(StepIndex(0), microbatch)
             : data_->Read(protocol_.step(), microbatch);
}

absl::StatusOr<std::vector<TensorRef>> TorchEngine::Forward(
    StageIndex stage, MicrobatchIndex microbatch,
    std::vector<TensorRef> inputs) {
  const Action action = Act(ActionKind::kForward, stage, microbatch);
  SC_RETURN_IF_ERROR(protocol_.Check(action, inputs.size()));
  SC_ASSIGN_OR_RETURN(const StageAssignment* const held, protocol_.Find(stage));
  SC_ASSIGN_OR_RETURN(const TokenBatch batch, ReadData(*held, microbatch));
  return CatchTorch(
      protocol_.Place(stage, microbatch),
      [&]() -> absl::StatusOr<std::vector<TensorRef>> {
        const memory::ScopedTag tag(ActivationTag(stage, microbatch));
        std::vector<TensorRef> outputs =
            RunForward(*held, microbatch, std::move(inputs), batch);
        protocol_.Record(action);
        return outputs;
      });
}

std::vector<TensorRef> TorchEngine::RunForward(const StageAssignment& stage,
                                               MicrobatchIndex microbatch,
                                               std::vector<TensorRef> inputs,
                                               const TokenBatch& batch) {
  const Key key(stage.stage, microbatch);
  const bool training = !protocol_.evaluating();
  const bool recompute = training && Recomputes(stage.stage);
  Tensors received = TensorsOf(inputs);
  // From here on only the model and what autograd saves hold the inputs.
  inputs.clear();
  MicrobatchGraph graph;
  if (recompute) kept_inputs_[key] = received;
  OutputPlacement::Call call(
      training ? PlacementOf(ActionKind::kForward, stage.stage) : &unused_,
      std::exchange(offered_, std::nullopt));
  Tensors outputs = RunModel(stage, microbatch, std::move(received), batch,
                             training && !recompute ? &graph : nullptr);
  call.Stop();
  if (stage.last) KeepLoss(microbatch, outputs);
  std::vector<TensorRef> kept =
      KeepOutputs(key, std::move(outputs), &call, &graph);
  if (training && !recompute) graphs_[key] = std::move(graph);
  if (stage.last) kept.clear();
  return kept;
}

Tensors TorchEngine::RunModel(const StageAssignment& stage,
                              MicrobatchIndex microbatch, Tensors inputs,
                              const TokenBatch& batch, MicrobatchGraph* graph) {
  const at::AutoGradMode grad_mode(graph != nullptr);
  Tensors seen;
  for (at::Tensor& input : inputs) {
    seen.push_back(graph != nullptr ? graph->MarkInput(input) : input);
    input.reset();
  }
  if (stage.first) seen.push_back(CopyTokens(batch.inputs, batch, device_));
  at::Tensor targets;
  if (stage.last) targets = CopyTokens(batch.targets, batch, device_);
  StageModel& model = *models_[stage.stage];
  if (isolated_) {
    model.UseDocuments(CopyTokens(batch.documents, batch, device_));
  }
  // The same when the forward is run again.
  if (!protocol_.evaluating()) {
    model.UseDropout({seed_, protocol_.step().value(), microbatch.value()});
  }
  return model.Forward(std::move(seen), targets);
}

std::vector<TensorRef> TorchEngine::KeepOutputs(const Key& key, Tensors outputs,
                                                OutputPlacement::Call* call,
                                                MicrobatchGraph* graph) {
  for (const at::Tensor& output : outputs) graph->KeepOutput(output);
  return ReadyForWire(key, &outputs, call);
}

OutputPlacement* TorchEngine::PlacementOf(ActionKind kind, StageIndex stage) {
  return &placements_[{kind, stage}];
}

std::vector<TensorRef> TorchEngine::ReadyForWire(const Key& key,
                                                 Tensors* outputs,
                                                 OutputPlacement::Call* call) {
  std::vector<TensorRef> refs;
  for (at::Tensor& output : *outputs) {
    at::Tensor ready = call->HasInSlot(output)
                           ? output.detach()
                           : WireReady(output, key.first, key.second);
    output.reset();
    if (outputs->size() == 1) call->Finish(ready);
    refs.push_back(std::make_shared<TorchTensor>(std::move(ready)));
  }
  return refs;
}

void TorchEngine::KeepLoss(MicrobatchIndex microbatch, const Tensors& outputs) {
  if (outputs.size() != 1 || outputs[0].numel() != 1) {
    throw std::invalid_argument(
        "the last stage must return one loss, a scalar");
  }
  losses_[microbatch] = outputs[0].item<double>();
}

}  // namespace stagecoach::worker
