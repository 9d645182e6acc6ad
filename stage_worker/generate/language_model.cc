#include "stage_worker/generate/language_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "job/hf_config.h"
#include "job/model_shape.h"
#include "stage_worker/engine/torch/torch_status.h"

namespace stagecoach::worker {
namespace {

StageAssignment BlocksOf(const job::JobSpec& spec) {
  StageAssignment stage;
  stage.stage = StageIndex(0);
  stage.layers.end = spec.model.layers;
  stage.first = true;
  return stage;
}

StageAssignment HeadOf(const job::JobSpec& spec) {
  StageAssignment stage;
  stage.stage = StageIndex(1);
  stage.layers.begin = stage.layers.end = spec.model.layers;
  stage.last = true;
  return stage;
}

at::Tensor RowOf(absl::Span<const int64_t> tokens) {
  at::Tensor row =
      at::empty({1, static_cast<int64_t>(tokens.size())}, at::kLong);
  std::copy(tokens.begin(), tokens.end(), row.mutable_data_ptr<int64_t>());
  return row;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LanguageModel>> LanguageModel::Open(
    const std::string& folder) {
  job::JobSpec spec;
  SC_ASSIGN_OR_RETURN(spec.model, job::LoadHfConfig(folder));
  spec.model.checkpoint = folder;
  spec.training.microbatches = 1;
  spec.training.microbatch_size = 1;
  // The plain kernels: no length is worth the choice of another.
  spec.training.kernels = job::KernelChoice::kAten;
  std::unique_ptr<LanguageModel> model(new LanguageModel(spec));
  SC_RETURN_IF_ERROR(
      CatchTorch("loading the weights", [&] { return model->LoadWeights(); }));
  return model;
}

LanguageModel::LanguageModel(const job::JobSpec& spec)
    : spec_(spec), positions_(job::ConfigOf(spec).positions) {}

absl::Status LanguageModel::LoadWeights() {
  const at::NoGradGuard no_gradients;
  spec_.data.sequence_length = 1;
  for (const StageAssignment& assignment : {BlocksOf(spec_), HeadOf(spec_)}) {
    SC_ASSIGN_OR_RETURN(const std::unique_ptr<StageModel> stage,
                        NewStageModel(spec_, assignment));
    for (StageParameter* parameter : stage->parameters()) {
      at::Tensor& value = weights_[parameter->stored_name()];
      if (value.defined()) continue;
      value = at::empty(parameter->shape, at::kFloat);
      parameter->initialise(value);
    }
  }
  // From here on new stages get these, and look into no file.
  spec_.model.checkpoint.clear();
  return MakeRoom(1);
}

absl::StatusOr<std::unique_ptr<StageModel>> LanguageModel::NewStage(
    const StageAssignment& assignment) {
  SC_ASSIGN_OR_RETURN(std::unique_ptr<StageModel> stage,
                      NewStageModel(spec_, assignment));
  for (StageParameter* parameter : stage->parameters()) {
    parameter->initialise = {};
    parameter->value = weights_.at(parameter->stored_name());
  }
  return stage;
}

// Twice as many as asked for: they grow by one token at a time.
absl::Status LanguageModel::MakeRoom(int64_t length) {
  if (blocks_ != nullptr && spec_.data.sequence_length >= length) {
    return absl::OkStatus();
  }
  spec_.data.sequence_length = std::min(positions_, 2 * length);
  SC_ASSIGN_OR_RETURN(blocks_, NewStage(BlocksOf(spec_)));
  SC_ASSIGN_OR_RETURN(head_, NewStage(HeadOf(spec_)));
  return absl::OkStatus();
}

absl::Status LanguageModel::See(absl::Span<const int64_t> tokens) {
  const bool goes_on = seen_.size() < tokens.size() &&
                       std::equal(seen_.begin(), seen_.end(), tokens.begin());
  if (!goes_on) {
    seen_.clear();
    cache_ = KeyValueCache();
  }
  SC_RETURN_IF_ERROR(MakeRoom(static_cast<int64_t>(tokens.size())));
  const at::Tensor hidden =
      blocks_->Continue(RowOf(tokens.subspan(seen_.size())), &cache_);
  seen_.assign(tokens.begin(), tokens.end());
  const at::Tensor last = hidden.select(0, 0).narrow(0, hidden.size(1) - 1, 1);
  const at::Tensor logits = head_->Logits(last).contiguous();
  const float* const data = logits.const_data_ptr<float>();
  logits_.assign(data, data + logits.numel());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> LanguageModel::NextLogits(
    absl::Span<const int64_t> tokens) {
  if (tokens.empty()) return absl::InvalidArgumentError("the prompt is empty");
  for (const int64_t token : tokens) {
    if (token >= 0 && token < vocabulary()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("token ", token, " is outside the model's vocabulary of ",
                     vocabulary(), "; is it another model's tokenizer?"));
  }
  const size_t most = static_cast<size_t>(positions_);
  if (tokens.size() > most) tokens = tokens.last(most);
  // As the last time: the same bits.
  if (std::equal(seen_.begin(), seen_.end(), tokens.begin(), tokens.end())) {
    return logits_;
  }
  SC_RETURN_IF_ERROR(CatchTorch("generating", [&] {
    const at::NoGradGuard no_gradients;
    return See(tokens);
  }));
  return logits_;
}

}  // namespace stagecoach::worker
