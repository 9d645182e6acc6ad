#include <ATen/ATen.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "job/model_shape.h"
#include "job/recompute.h"
#include "stage_worker/kernels/choice.h"
#include "stage_worker/kernels/embedding.h"
#include "stage_worker/kernels/gpt2_block.h"
#include "stage_worker/model/compute_type.h"
#include "stage_worker/model/dropout.h"
#include "stage_worker/model/layers.h"
#include "stage_worker/model/parameter_set.h"
#include "stage_worker/model/recomputed_layer.h"
#include "stage_worker/model/stage_model.h"

// GPT-2 with the parameter names, shapes and order of Hugging Face's
// GPT2LMHeadModel. Linear layers are its Conv1D: weights are [in, out].
namespace stagecoach::worker {
namespace {

Initialiser InitialiserOf(const job::JobSpec& spec,
                          const job::ModelConfig& config,
                          const std::string& name) {
  if (absl::EndsWith(name, ".bias")) return Constant(0);
  if (absl::StrContains(name, ".ln_")) return Constant(1);
  // What feeds the residual stream is smaller, as 2 of each block add up there.
  const double deviation =
      absl::EndsWith(name, ".c_proj.weight")
          ? config.initializer_range /
                std::sqrt(2.0 * static_cast<double>(spec.model.layers))
          : config.initializer_range;
  return Normal(deviation, spec.seed, name);
}

// 1 / sqrt(head width)
double ScaleOfHead(const job::ModelSpec& model) {
  const int64_t width = model.hidden / model.heads;
  return 1 / std::sqrt(static_cast<double>(width));
}

struct Affine {
  StageParameter* weight = nullptr;
  StageParameter* bias = nullptr;

  kernels::Linear Kernel() const {
    return {KernelParameter(weight), KernelParameter(bias)};
  }
};

at::Tensor Conv1d(const Affine& layer, const at::Tensor& x) {
  std::vector<int64_t> sizes = x.sizes().vec();
  const at::Tensor rows = x.reshape({-1, sizes.back()});
  sizes.back() = layer.weight->shape[1];
  return at::addmm(InComputeType(*layer.bias), rows,
                   InComputeType(*layer.weight))
      .view(sizes);
}

struct Block {
  std::string name;  // "transformer.h.0."
  Affine ln_1;
  Affine c_attn;
  Affine attn_c_proj;
  Affine ln_2;
  Affine c_fc;
  Affine mlp_c_proj;
  std::optional<double> score_scale;  // empty: ScaleOfHead
};

class Gpt2Stage final : public StageModel {
 public:
  Gpt2Stage(const job::JobSpec& spec, const StageAssignment& stage);

  std::vector<StageParameter*> parameters() override {
    return parameters_.All();
  }
  std::vector<at::Tensor> Forward(std::vector<at::Tensor> inputs,
                                  const at::Tensor& targets) override;
  void UseDocuments(const at::Tensor& documents) override {
    document_mask_ = AdditiveMask(DocumentMask(documents));
  }
  void UseDropout(const DropoutPosition& position) override {
    if (config_.has_dropout()) dropout_ = position;
  }
  at::Tensor Continue(const at::Tensor& tokens, KeyValueCache* cache) override;
  at::Tensor Logits(const at::Tensor& hidden) override {
    return HeadLogits(LayerNorm(ln_f_, hidden), InComputeType(*lm_head_));
  }

 private:
  Affine AffineOf(const std::string& name);
  Block BlockOf(int64_t layer);
  std::optional<double> ScoreScale(int64_t layer) const;

  at::Tensor LayerNorm(const Affine& norm, const at::Tensor& x) const;
  at::Tensor Embed(const at::Tensor& tokens) const;
  at::Tensor Attention(const Block& block, const at::Tensor& x,
                       const LayerInputs& with, LayerCache* cache) const;
  // With a cache: behind what it holds.
  at::Tensor RunBlock(const Block& block, const at::Tensor& x,
                      const LayerInputs& with,
                      LayerCache* cache = nullptr) const;
  at::Tensor RunLayer(size_t i, const at::Tensor& x) const;
  kernels::Gpt2Block OwnBlockOf(const Block& block) const;

  const job::JobSpec spec_;
  const job::ModelConfig config_;
  const StageAssignment stage_;
  const bool own_kernels_;
  const job::Recompute recompute_;
  ParameterSet parameters_;
  StageParameter* wte_ = nullptr;
  StageParameter* wpe_ = nullptr;
  std::vector<Block> blocks_;
  // The same for own kernels; empty with ATen's.
  std::vector<kernels::Gpt2Block> own_blocks_;
  Affine ln_f_;
  StageParameter* lm_head_ = nullptr;
  // Of the next Forward.
  std::optional<at::Tensor> document_mask_;
  std::optional<DropoutPosition> dropout_;
};

Gpt2Stage::Gpt2Stage(const job::JobSpec& spec, const StageAssignment& stage)
    : spec_(spec),
      config_(job::ConfigOf(spec)),
      stage_(stage),
      own_kernels_(kernels::IsOwn(spec.training.kernels)),
      recompute_(job::RecomputeOf(spec, stage.stage)),
      parameters_(spec, stage, [this](const std::string& name) {
        return InitialiserOf(spec_, config_, name);
      }) {
  if (stage.first) {
    wte_ = parameters_.Get("transformer.wte.weight");
    wpe_ = parameters_.Get("transformer.wpe.weight");
  }
  for (int64_t layer = stage.layers.begin; layer < stage.layers.end; ++layer) {
    blocks_.push_back(BlockOf(layer));
  }
  if (own_kernels_) {
    for (const Block& block : blocks_) own_blocks_.push_back(OwnBlockOf(block));
  }
  if (stage.last) {
    ln_f_ = AffineOf("transformer.ln_f");
    lm_head_ = parameters_.Get("lm_head.weight");
  }
}

Affine Gpt2Stage::AffineOf(const std::string& name) {
  Affine layer;
  layer.weight = parameters_.Get(name + ".weight");
  layer.bias = parameters_.Get(name + ".bias");
  return layer;
}

Block Gpt2Stage::BlockOf(int64_t layer) {
  const std::string name = absl::StrCat("transformer.h.", layer, ".");
  Block block;
  block.name = name;
  block.ln_1 = AffineOf(name + "ln_1");
  block.c_attn = AffineOf(name + "attn.c_attn");
  block.attn_c_proj = AffineOf(name + "attn.c_proj");
  block.ln_2 = AffineOf(name + "ln_2");
  block.c_fc = AffineOf(name + "mlp.c_fc");
  block.mlp_c_proj = AffineOf(name + "mlp.c_proj");
  block.score_scale = ScoreScale(layer);
  return block;
}

std::optional<double> Gpt2Stage::ScoreScale(int64_t layer) const {
  if (config_.scale_scores && !config_.scale_scores_by_layer) return {};
  const double scale = config_.scale_scores ? ScaleOfHead(spec_.model) : 1;
  return config_.scale_scores_by_layer ? scale / static_cast<double>(layer + 1)
                                       : scale;
}

kernels::Gpt2Block Gpt2Stage::OwnBlockOf(const Block& block) const {
  kernels::Gpt2Block own;
  own.ln_1_weight = KernelParameter(block.ln_1.weight);
  own.ln_1_bias = KernelParameter(block.ln_1.bias);
  own.c_attn = block.c_attn.Kernel();
  own.attn_c_proj = block.attn_c_proj.Kernel();
  own.ln_2_weight = KernelParameter(block.ln_2.weight);
  own.ln_2_bias = KernelParameter(block.ln_2.bias);
  own.c_fc = block.c_fc.Kernel();
  own.mlp_c_proj = block.mlp_c_proj.Kernel();
  own.heads = spec_.model.heads;
  own.score_scale = block.score_scale.value_or(ScaleOfHead(spec_.model));
  own.epsilon = config_.norm_epsilon;
  own.activation = config_.activation;
  own.library = kernels::LibraryOf(spec_.training.kernels);
  return own;
}

at::Tensor Gpt2Stage::LayerNorm(const Affine& norm, const at::Tensor& x) const {
  return at::layer_norm(x, norm.weight->shape, norm.weight->value,
                        norm.bias->value, config_.norm_epsilon);
}

at::Tensor Gpt2Stage::Embed(const at::Tensor& tokens) const {
  if (own_kernels_) {
    return kernels::RunEmbedding(KernelParameter(wte_), KernelParameter(wpe_),
                                 tokens);
  }
  const int64_t length = spec_.data.sequence_length;
  const at::Tensor positions = length == config_.positions
                                   ? wpe_->value
                                   : wpe_->value.narrow(0, 0, length);
  const at::Tensor sum = (at::embedding(wte_->value, tokens) + positions)
                             .to(ScalarTypeOf(spec_.training.precision));
  const LayerDropout drop = {dropout_, /*layer=*/0};
  return drop(sum, config_.embedding_dropout, DropoutSite::kEmbedding);
}

at::Tensor Gpt2Stage::Attention(const Block& block, const at::Tensor& x,
                                const LayerInputs& with,
                                LayerCache* cache) const {
  const int64_t rows = x.size(0);
  const int64_t length = x.size(1);
  const job::ModelSpec& model = spec_.model;
  const std::vector<at::Tensor> parts =
      Conv1d(block.c_attn, x).split(model.hidden, /*dim=*/2);
  const auto heads = [&](const at::Tensor& part) {
    return part.view({rows, length, model.heads, model.hidden / model.heads})
        .transpose(1, 2);
  };
  AttentionOptions options;
  options.mask = with.mask;
  options.scale = block.score_scale;
  options.dropout = config_.attention_dropout;
  at::Tensor key = heads(parts[1]);
  at::Tensor value = heads(parts[2]);
  if (cache != nullptr) {
    AppendTo(cache, &key, &value);
    options.mask = CausalMask(length, key.size(2) - length, /*window=*/0);
  }
  const at::Tensor mixed =
      Attend(heads(parts[0]), key, value, options, with.drop);
  return Conv1d(block.attn_c_proj,
                mixed.transpose(1, 2).reshape({rows, length, model.hidden}));
}

at::Tensor Gpt2Stage::RunBlock(const Block& block, const at::Tensor& x,
                               const LayerInputs& with,
                               LayerCache* cache) const {
  const double residual = config_.residual_dropout;
  const at::Tensor attended =
      x + with.drop(Attention(block, LayerNorm(block.ln_1, x), with, cache),
                    residual, DropoutSite::kAttentionOutput);
  const at::Tensor inner = Activate(
      config_.activation, Conv1d(block.c_fc, LayerNorm(block.ln_2, attended)));
  return attended + with.drop(Conv1d(block.mlp_c_proj, inner), residual,
                              DropoutSite::kMlpOutput);
}

at::Tensor Gpt2Stage::Continue(const at::Tensor& tokens, KeyValueCache* cache) {
  cache->layers.resize(blocks_.size());
  const int64_t length = tokens.size(1);
  at::Tensor x = at::embedding(wte_->value, tokens) +
                 wpe_->value.narrow(0, cache->length, length);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    x = RunBlock(blocks_[i], x, LayerInputs(), &cache->layers[i]);
  }
  cache->length += length;
  return x;
}

at::Tensor Gpt2Stage::RunLayer(size_t i, const at::Tensor& x) const {
  LayerInputs with;
  with.drop = {dropout_, stage_.layers.begin + static_cast<int64_t>(i)};
  with.mask = document_mask_;
  const Layer layer = [this, i, with](const at::Tensor& input) {
    return own_kernels_ ? kernels::RunGpt2Block(own_blocks_[i], input)
                        : RunBlock(blocks_[i], input, with);
  };
  if (!recompute_.Layer(static_cast<int64_t>(i))) return layer(x);
  return RunRecomputed(layer, x, parameters_.AnyTrains(blocks_[i].name),
                       with.mask);
}

std::vector<at::Tensor> Gpt2Stage::Forward(std::vector<at::Tensor> inputs,
                                           const at::Tensor& targets) {
  CheckStageInput(inputs, targets, spec_, stage_, "GPT-2");
  at::Tensor x = std::move(inputs[0]);
  if (stage_.first) x = Embed(x);
  for (size_t i = 0; i < blocks_.size(); ++i) x = RunLayer(i, x);
  document_mask_.reset();
  dropout_.reset();
  if (!stage_.last) return {x};
  return {HeadLoss(LayerNorm(ln_f_, x).view({-1, spec_.model.hidden}),
                   InComputeType(*lm_head_), targets,
                   spec_.training.loss_chunk)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<StageModel>> NewGpt2Stage(
    const job::JobSpec& spec, const StageAssignment& stage) {
  SC_RETURN_IF_ERROR(CheckStageSizes(spec, stage));
  return std::unique_ptr<StageModel>(std::make_unique<Gpt2Stage>(spec, stage));
}

}  // namespace stagecoach::worker
