#include "stage_worker/model/layers.h"

#include <ATen/ATen.h>

#include <stdexcept>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stage_worker/model/chunked_loss.h"

namespace stagecoach::worker {

at::Tensor Activate(job::Activation activation, const at::Tensor& x) {
  switch (activation) {
    case job::Activation::kGeluTanh:
      return at::gelu(x, /*approximate=*/"tanh");
    case job::Activation::kGelu:
      return at::gelu(x);
    case job::Activation::kSilu:
      return at::silu(x);
    case job::Activation::kRelu:
      return at::relu(x);
  }
  throw std::invalid_argument("an activation that does not exist");
}

at::Tensor HeadLogits(const at::Tensor& rows, const at::Tensor& head) {
  return at::mm(rows, head.t());
}

at::Tensor HeadLoss(const at::Tensor& rows, const at::Tensor& head,
                    const at::Tensor& targets, int64_t chunk) {
  if (chunk > 0 && rows.size(0) > chunk) {
    return ChunkedHeadLoss(rows, head, targets.reshape({-1}), chunk);
  }
  return at::cross_entropy_loss(HeadLogits(rows, head), targets.reshape({-1}),
                                /*weight=*/{}, at::Reduction::Sum);
}

void CheckStageInput(const std::vector<at::Tensor>& inputs,
                     const at::Tensor& targets, const job::JobSpec& spec,
                     const StageAssignment& stage, absl::string_view model) {
  if (inputs.size() != 1) {
    throw std::invalid_argument(
        absl::StrCat(inputs.size(), " inputs, ", model, " takes one"));
  }
  const at::Tensor& input = inputs[0];
  const int64_t length = spec.data.sequence_length;
  const int64_t hidden = spec.model.hidden;
  const bool fits = stage.first ? input.dim() == 2 && input.size(1) == length
                                : input.dim() == 3 && input.size(1) == length &&
                                      input.size(2) == hidden &&
                                      input.scalar_type() == at::kFloat;
  if (!fits) {
    throw std::invalid_argument(absl::StrCat(
        "the input is ", c10::str(input.sizes()), ", ", model, " takes ",
        stage.first
            ? absl::StrCat("tokens [rows, ", length, "]")
            : absl::StrCat("float32 [rows, ", length, ", ", hidden, "]")));
  }
  if (stage.last && targets.numel() != input.size(0) * length) {
    throw std::invalid_argument(
        absl::StrCat(input.size(0), " rows of activations, but ",
                     targets.numel() / length, " rows of targets"));
  }
}

absl::Status CheckStageSizes(const job::JobSpec& spec,
                             const StageAssignment& stage) {
  const job::ModelSpec& model = spec.model;
  if (model.layers < 1 || model.hidden < 1 || model.heads < 1 ||
      model.vocabulary < 1 || spec.data.sequence_length < 1) {
    return absl::InvalidArgumentError(
        "model.layers, model.hidden, model.heads, model.vocabulary and "
        "data.sequence_length must be at least 1");
  }
  if (!model.config.has_value() && model.hidden % model.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.heads = ", model.heads,
                     " does not divide model.hidden = ", model.hidden));
  }
  if (stage.layers.begin < 0 || stage.layers.begin > stage.layers.end ||
      stage.layers.end > model.layers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stage ", stage.stage.value(), ": layers ", stage.layers.begin, " to ",
        stage.layers.end, " of a model with ", model.layers));
  }
  return absl::OkStatus();
}

}  // namespace stagecoach::worker
