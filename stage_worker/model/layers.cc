#include "stage_worker/model/layers.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "absl/strings/str_cat.h"
#include "job/words.h"
#include "stage_worker/model/chunked_loss.h"
#include "stage_worker/model/compute_type.h"

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

at::Tensor DocumentMask(const at::Tensor& documents) {
  return documents.unsqueeze(2).eq(documents.unsqueeze(1)).tril().unsqueeze(1);
}

at::Tensor CausalMask(int64_t length, int64_t past, int64_t window) {
  const at::Tensor seen =
      at::ones({length, past + length}, at::kBool).tril(past);
  return window > 0 ? seen.triu(past + 1 - window) : seen;
}

void AppendTo(LayerCache* cache, at::Tensor* keys, at::Tensor* values) {
  if (cache->keys.defined()) {
    *keys = at::cat({cache->keys, *keys}, /*dim=*/2);
    *values = at::cat({cache->values, *values}, /*dim=*/2);
  }
  cache->keys = *keys;
  cache->values = *values;
}

at::Tensor AdditiveMask(const at::Tensor& seen) {
  return at::zeros(seen.sizes(), seen.options().dtype(at::kFloat))
      .masked_fill_(seen.logical_not(),
                    -std::numeric_limits<float>::infinity());
}

at::Tensor Attend(const at::Tensor& query, const at::Tensor& key,
                  const at::Tensor& value, const AttentionOptions& options,
                  const LayerDropout& drop) {
  if (!drop.position.has_value() || options.dropout <= 0) {
    const bool causal = !options.mask.has_value();
    std::optional<at::Tensor> mask = options.mask;
    if (!causal && mask->scalar_type() != at::kBool) {
      mask = mask->to(query.scalar_type());
    }
    return at::scaled_dot_product_attention(query, key, value, mask,
                                            /*dropout_p=*/0.0, causal,
                                            options.scale);
  }
  const double width = static_cast<double>(query.size(-1));
  at::Tensor mask = options.mask.has_value()
                        ? *options.mask
                        : at::ones({query.size(-2), key.size(-2)},
                                   query.options().dtype(at::kBool))
                              .tril();
  if (mask.scalar_type() == at::kBool) mask = AdditiveMask(mask);
  const at::Tensor scores = at::matmul(query, key.transpose(-2, -1)) *
                            options.scale.value_or(1 / std::sqrt(width));
  // In float32: the mask's type.
  const at::Tensor weights =
      at::softmax(scores + mask, /*dim=*/-1).to(value.scalar_type());
  return at::matmul(drop(weights, options.dropout, DropoutSite::kAttention),
                    value);
}

at::Tensor HeadLogits(const at::Tensor& rows, const at::Tensor& head) {
  return at::mm(rows, head.t());
}

at::Tensor HeadLoss(const at::Tensor& rows, const at::Tensor& head,
                    const at::Tensor& targets, int64_t chunk) {
  if (chunk > 0 && rows.size(0) > chunk) {
    return ChunkedHeadLoss(rows, head, targets.reshape({-1}), chunk);
  }
  return at::cross_entropy_loss(HeadLogits(rows, head).to(at::kFloat),
                                targets.reshape({-1}),
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
  const at::ScalarType type = ScalarTypeOf(spec.training.precision);
  const bool fits = stage.first ? input.dim() == 2 && input.size(1) == length
                                : input.dim() == 3 && input.size(1) == length &&
                                      input.size(2) == hidden &&
                                      input.scalar_type() == type;
  if (!fits) {
    throw std::invalid_argument(absl::StrCat(
        "the input is ", c10::str(input.sizes()), ", ", model, " takes ",
        stage.first ? absl::StrCat("tokens [rows, ", length, "]")
                    : absl::StrCat(job::WordOf(spec.training.precision),
                                   " [rows, ", length, ", ", hidden, "]")));
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
