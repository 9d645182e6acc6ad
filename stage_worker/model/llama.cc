#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/tensor.h>

#include <cstdint>
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
#include "stage_worker/kernels/llama_block.h"
#include "stage_worker/model/compute_type.h"
#include "stage_worker/model/dropout.h"
#include "stage_worker/model/layers.h"
#include "stage_worker/model/parameter_set.h"
#include "stage_worker/model/recomputed_layer.h"
#include "stage_worker/model/rope.h"
#include "stage_worker/model/stage_model.h"

// Llama and what differs from it only in details: Mistral (sliding window),
// Qwen2 (biases), Qwen3 (norms of queries and keys). Parameter names, shapes
// and order of Hugging Face's LlamaForCausalLM; linear weights are [out, in].
namespace stagecoach::worker {
namespace {

Initialiser InitialiserOf(const job::JobSpec& spec,
                          const job::ModelConfig& config,
                          const std::string& name) {
  if (absl::EndsWith(name, ".bias")) return Constant(0);
  if (absl::EndsWith(name, "norm.weight")) return Constant(1);
  return Normal(config.initializer_range, spec.seed, name);
}

struct Linear {
  StageParameter* weight = nullptr;
  StageParameter* bias = nullptr;  // may be absent

  kernels::Linear Kernel() const {
    return {KernelParameter(weight), KernelParameter(bias),
            /*output_first=*/true};
  }

  at::Tensor operator()(const at::Tensor& x) const {
    std::vector<int64_t> sizes = x.sizes().vec();
    const at::Tensor rows = x.reshape({-1, sizes.back()});
    sizes.back() = weight->shape[0];
    const at::Tensor turned = InComputeType(*weight).t();
    return (bias == nullptr ? at::mm(rows, turned)
                            : at::addmm(InComputeType(*bias), rows, turned))
        .view(sizes);
  }
};

struct Block {
  std::string name;  // "model.layers.0."
  StageParameter* input_norm = nullptr;
  Linear q_proj;
  Linear k_proj;
  Linear v_proj;
  Linear o_proj;
  StageParameter* q_norm = nullptr;  // both or none
  StageParameter* k_norm = nullptr;
  StageParameter* post_attention_norm = nullptr;
  Linear gate_proj;
  Linear up_proj;
  Linear down_proj;
  // Which keys [sequence] a query [sequence] sees; empty: all before it.
  std::optional<at::Tensor> mask;
  int64_t window = 0;  // the same as a number; 0: all before it
};

// [sequence, head width] each; the second half repeats the first.
struct Rotation {
  at::Tensor cosine;
  at::Tensor sine;
};

Rotation RotationOf(const job::ModelConfig& config, int64_t length) {
  const RotaryFrequencies rotary = RotaryFrequenciesOf(config, length);
  const at::Tensor frequencies =
      at::tensor(at::ArrayRef<float>(rotary.frequencies));
  const at::Tensor angles =
      at::arange(length, at::kFloat).unsqueeze(1) * frequencies;
  const at::Tensor twice = at::cat({angles, angles}, /*dim=*/1);
  return {twice.cos() * rotary.scale, twice.sin() * rotary.scale};
}

at::Tensor SlidingMask(int64_t length, int64_t window) {
  return at::ones({length, length}, at::kBool).tril().triu(1 - window);
}

class LlamaStage final : public StageModel {
 public:
  LlamaStage(const job::JobSpec& spec, const StageAssignment& stage);

  std::vector<StageParameter*> parameters() override {
    return parameters_.All();
  }
  std::vector<at::Tensor> Forward(std::vector<at::Tensor> inputs,
                                  const at::Tensor& targets) override;
  void UseDocuments(const at::Tensor& documents) override;
  void UseDropout(const DropoutPosition& position) override {
    if (config_.has_dropout()) dropout_ = position;
  }
  at::Tensor Continue(const at::Tensor& tokens, KeyValueCache* cache) override;
  at::Tensor Logits(const at::Tensor& hidden) override {
    return HeadLogits(RmsNorm(norm_, hidden), InComputeType(*lm_head_));
  }

 private:
  Linear LinearOf(const std::string& name);
  Block BlockOf(int64_t layer);
  void MoveConstantsTo(const at::Device& device);

  at::Tensor Embed(const at::Tensor& tokens) const;
  at::Tensor RmsNorm(const StageParameter* weight,
                     const at::Tensor& input) const;
  // [..., tokens, width], the first of them at position `begin`.
  at::Tensor Rotate(const at::Tensor& x, int64_t begin) const;
  // [rows, sequence, heads * width] to [rows, heads, sequence, width].
  at::Tensor Heads(const at::Tensor& x, int64_t heads,
                   const StageParameter* norm) const;
  at::Tensor RepeatHeads(const at::Tensor& x) const;
  std::optional<at::Tensor> MaskOf(const Block& block) const;
  at::Tensor Attention(const Block& block, const at::Tensor& x,
                       const LayerInputs& with, LayerCache* cache) const;
  // With a cache: behind what it holds.
  at::Tensor RunBlock(const Block& block, const at::Tensor& x,
                      const LayerInputs& with,
                      LayerCache* cache = nullptr) const;
  at::Tensor RunLayer(size_t i, const at::Tensor& x) const;
  kernels::LlamaBlock OwnBlockOf(const Block& block) const;

  const job::JobSpec spec_;
  const job::ModelConfig config_;
  const StageAssignment stage_;
  const bool own_kernels_;
  const at::ScalarType type_;  // of activations
  const job::Recompute recompute_;
  ParameterSet parameters_;
  StageParameter* embed_tokens_ = nullptr;
  std::vector<Block> blocks_;
  // The same for own kernels; empty with ATen's.
  std::vector<kernels::LlamaBlock> own_blocks_;
  StageParameter* norm_ = nullptr;
  StageParameter* lm_head_ = nullptr;
  Rotation rotation_;
  // Of the next Forward, where documents are isolated: those of layers that see
  // all of a document, and of layers with a window.
  std::optional<at::Tensor> document_mask_;
  std::optional<at::Tensor> document_window_mask_;
  std::optional<DropoutPosition> dropout_;  // of the next Forward
};

LlamaStage::LlamaStage(const job::JobSpec& spec, const StageAssignment& stage)
    : spec_(spec),
      config_(job::ConfigOf(spec)),
      stage_(stage),
      own_kernels_(kernels::IsOwn(spec.training.kernels)),
      type_(ScalarTypeOf(spec.training.precision)),
      recompute_(job::RecomputeOf(spec, stage.stage)),
      parameters_(spec, stage, [this](const std::string& name) {
        return InitialiserOf(spec_, config_, name);
      }) {
  if (stage.first) embed_tokens_ = parameters_.Get("model.embed_tokens.weight");
  for (int64_t layer = stage.layers.begin; layer < stage.layers.end; ++layer) {
    blocks_.push_back(BlockOf(layer));
  }
  if (stage.last) {
    norm_ = parameters_.Get("model.norm.weight");
    lm_head_ = parameters_.Get("lm_head.weight");
  }
  rotation_ = RotationOf(config_, spec.data.sequence_length);
  if (!own_kernels_) return;
  for (const Block& block : blocks_) own_blocks_.push_back(OwnBlockOf(block));
}

Linear LlamaStage::LinearOf(const std::string& name) {
  Linear layer;
  layer.weight = parameters_.Get(name + ".weight");
  layer.bias = parameters_.Find(name + ".bias");
  return layer;
}

Block LlamaStage::BlockOf(int64_t layer) {
  const std::string name = absl::StrCat("model.layers.", layer, ".");
  Block block;
  block.name = name;
  block.input_norm = parameters_.Get(name + "input_layernorm.weight");
  block.q_proj = LinearOf(name + "self_attn.q_proj");
  block.k_proj = LinearOf(name + "self_attn.k_proj");
  block.v_proj = LinearOf(name + "self_attn.v_proj");
  block.o_proj = LinearOf(name + "self_attn.o_proj");
  block.q_norm = parameters_.Find(name + "self_attn.q_norm.weight");
  block.k_norm = parameters_.Find(name + "self_attn.k_norm.weight");
  block.post_attention_norm =
      parameters_.Get(name + "post_attention_layernorm.weight");
  block.gate_proj = LinearOf(name + "mlp.gate_proj");
  block.up_proj = LinearOf(name + "mlp.up_proj");
  block.down_proj = LinearOf(name + "mlp.down_proj");
  const int64_t window = config_.WindowOfLayer(layer);
  const int64_t length = spec_.data.sequence_length;
  if (window > 0 && window < length) {
    block.window = window;
    if (!own_kernels_) block.mask = SlidingMask(length, window);
  }
  return block;
}

kernels::LlamaBlock LlamaStage::OwnBlockOf(const Block& block) const {
  kernels::LlamaBlock own;
  own.input_norm = KernelParameter(block.input_norm);
  own.q_proj = block.q_proj.Kernel();
  own.k_proj = block.k_proj.Kernel();
  own.v_proj = block.v_proj.Kernel();
  own.o_proj = block.o_proj.Kernel();
  own.q_norm = KernelParameter(block.q_norm);
  own.k_norm = KernelParameter(block.k_norm);
  own.post_attention_norm = KernelParameter(block.post_attention_norm);
  own.gate_proj = block.gate_proj.Kernel();
  own.up_proj = block.up_proj.Kernel();
  own.down_proj = block.down_proj.Kernel();
  own.cosine = &rotation_.cosine;
  own.sine = &rotation_.sine;
  own.heads = spec_.model.heads;
  own.key_value_heads = config_.key_value_heads;
  own.head_width = config_.head_width;
  own.window = block.window;
  own.epsilon = config_.norm_epsilon;
  own.activation = config_.activation;
  own.library = kernels::LibraryOf(spec_.training.kernels);
  return own;
}

// The engine chooses the device when it lays the parameters out.
void LlamaStage::MoveConstantsTo(const at::Device& device) {
  if (rotation_.cosine.device() == device) return;
  rotation_.cosine = rotation_.cosine.to(device);
  rotation_.sine = rotation_.sine.to(device);
  for (Block& block : blocks_) {
    if (block.mask.has_value()) block.mask = block.mask->to(device);
  }
}

// In float32; only the result is rounded.
at::Tensor LlamaStage::RmsNorm(const StageParameter* weight,
                               const at::Tensor& input) const {
  const at::Tensor x = input.to(at::kFloat);
  const at::Tensor mean_square = x.pow(2).mean(-1, /*keepdim=*/true);
  return (weight->value * (x * at::rsqrt(mean_square + config_.norm_epsilon)))
      .to(type_);
}

// Element i makes a pair with element i + width / 2.
at::Tensor LlamaStage::Rotate(const at::Tensor& x, int64_t begin) const {
  const int64_t half = config_.head_width / 2;
  const at::Tensor turned =
      at::cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, /*dim=*/-1);
  const int64_t length = x.size(-2);
  return (x * rotation_.cosine.narrow(0, begin, length) +
          turned * rotation_.sine.narrow(0, begin, length))
      .to(type_);
}

at::Tensor LlamaStage::Heads(const at::Tensor& x, int64_t heads,
                             const StageParameter* norm) const {
  const at::Tensor split =
      x.view({x.size(0), x.size(1), heads, config_.head_width});
  return (norm == nullptr ? split : RmsNorm(norm, split)).transpose(1, 2);
}

// Grouped queries: each key and value head serves several in a row.
at::Tensor LlamaStage::RepeatHeads(const at::Tensor& x) const {
  const int64_t times = spec_.model.heads / config_.key_value_heads;
  if (times == 1) return x;
  return x.unsqueeze(2)
      .expand({x.size(0), x.size(1), times, x.size(2), x.size(3)})
      .reshape({x.size(0), spec_.model.heads, x.size(2), x.size(3)});
}

// The window of a sliding layer, the document, or both.
std::optional<at::Tensor> LlamaStage::MaskOf(const Block& block) const {
  if (!document_mask_.has_value()) return block.mask;
  return block.mask.has_value() ? document_window_mask_ : document_mask_;
}

void LlamaStage::UseDocuments(const at::Tensor& documents) {
  const at::Tensor seen = DocumentMask(documents);
  document_mask_ = AdditiveMask(seen);
  for (const Block& block : blocks_) {
    if (!block.mask.has_value()) continue;
    // One window for all layers that have one.
    const at::Tensor window = block.mask->to(documents.device());
    document_window_mask_ = AdditiveMask(seen.logical_and(window));
    return;
  }
}

at::Tensor LlamaStage::Attention(const Block& block, const at::Tensor& x,
                                 const LayerInputs& with,
                                 LayerCache* cache) const {
  const int64_t heads = spec_.model.heads;
  const int64_t pairs = config_.key_value_heads;
  const bool has_past = cache != nullptr && cache->keys.defined();
  const int64_t past = has_past ? cache->keys.size(2) : 0;
  const at::Tensor query =
      Rotate(Heads(block.q_proj(x), heads, block.q_norm), past);
  at::Tensor key = Rotate(Heads(block.k_proj(x), pairs, block.k_norm), past);
  at::Tensor value = Heads(block.v_proj(x), pairs, nullptr);
  AttentionOptions options;
  options.mask = with.mask;
  if (cache != nullptr) {
    AppendTo(cache, &key, &value);
    options.mask = CausalMask(x.size(1), past, block.window);
  }
  options.dropout = config_.attention_dropout;
  const at::Tensor mixed =
      Attend(query, RepeatHeads(key), RepeatHeads(value), options, with.drop);
  return block.o_proj(mixed.transpose(1, 2).reshape(
      {x.size(0), x.size(1), heads * config_.head_width}));
}

at::Tensor LlamaStage::RunBlock(const Block& block, const at::Tensor& x,
                                const LayerInputs& with,
                                LayerCache* cache) const {
  const at::Tensor attended =
      x + Attention(block, RmsNorm(block.input_norm, x), with, cache);
  const at::Tensor normed = RmsNorm(block.post_attention_norm, attended);
  return attended +
         block.down_proj(Activate(config_.activation, block.gate_proj(normed)) *
                         block.up_proj(normed));
}

at::Tensor LlamaStage::Embed(const at::Tensor& tokens) const {
  return own_kernels_ ? kernels::RunEmbedding(KernelParameter(embed_tokens_),
                                              /*positions=*/{}, tokens)
                      : at::embedding(embed_tokens_->value, tokens).to(type_);
}

at::Tensor LlamaStage::Continue(const at::Tensor& tokens,
                                KeyValueCache* cache) {
  cache->layers.resize(blocks_.size());
  at::Tensor x = at::embedding(embed_tokens_->value, tokens);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    x = RunBlock(blocks_[i], x, LayerInputs(), &cache->layers[i]);
  }
  cache->length += tokens.size(1);
  return x;
}

at::Tensor LlamaStage::RunLayer(size_t i, const at::Tensor& x) const {
  LayerInputs with;
  with.drop = {dropout_, stage_.layers.begin + static_cast<int64_t>(i)};
  with.mask = MaskOf(blocks_[i]);
  const Layer layer = [this, i, with](const at::Tensor& input) {
    return own_kernels_ ? kernels::RunLlamaBlock(own_blocks_[i], input)
                        : RunBlock(blocks_[i], input, with);
  };
  if (!recompute_.Layer(static_cast<int64_t>(i))) return layer(x);
  // A window's mask alone is the stage's, not the microbatch's.
  return RunRecomputed(layer, x, parameters_.AnyTrains(blocks_[i].name),
                       document_mask_.has_value() ? with.mask : std::nullopt);
}

std::vector<at::Tensor> LlamaStage::Forward(std::vector<at::Tensor> inputs,
                                            const at::Tensor& targets) {
  CheckStageInput(inputs, targets, spec_, stage_, "a Llama");
  at::Tensor x = std::move(inputs[0]);
  MoveConstantsTo(x.device());
  if (stage_.first) x = Embed(x);
  for (size_t i = 0; i < blocks_.size(); ++i) x = RunLayer(i, x);
  dropout_.reset();
  document_mask_.reset();
  document_window_mask_.reset();
  if (!stage_.last) return {x};
  return {HeadLoss(RmsNorm(norm_, x).view({-1, spec_.model.hidden}),
                   InComputeType(*lm_head_), targets,
                   spec_.training.loss_chunk)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<StageModel>> NewLlamaStage(
    const job::JobSpec& spec, const StageAssignment& stage) {
  SC_RETURN_IF_ERROR(CheckStageSizes(spec, stage));
  return std::unique_ptr<StageModel>(std::make_unique<LlamaStage>(spec, stage));
}

}  // namespace stagecoach::worker
