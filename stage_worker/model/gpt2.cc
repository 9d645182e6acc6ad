#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "stage_worker/model/stage_model.h"

// GPT-2 with the parameter names, shapes and order of Hugging Face's
// GPT2LMHeadModel. Linear layers are its Conv1D: weights are [in, out].
namespace stagecoach::worker {
namespace {

constexpr double kNormEpsilon = 1e-5;
constexpr double kInitialDeviation = 0.02;
constexpr int64_t kParametersPerBlock = 12;

using Initialiser = std::function<void(at::Tensor&)>;

Initialiser Constant(double value) {
  return [value](at::Tensor& parameter) { parameter.fill_(value); };
}

// FNV-1a over "seed/name". Torch's CPU generator uses the low 32 bits.
uint64_t RandomKey(int64_t seed, absl::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char byte : absl::StrCat(seed, "/", name)) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  }
  return hash ^ (hash >> 32);
}

// Drawn on the CPU whatever the device, so that the values are the same.
Initialiser Normal(double deviation, int64_t seed, const std::string& name) {
  const uint64_t key = RandomKey(seed, name);
  return [deviation, key](at::Tensor& parameter) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(key);
    if (parameter.is_cpu()) {
      parameter.normal_(0, deviation, generator);
    } else {
      parameter.copy_(at::empty(parameter.sizes(), at::kFloat)
                          .normal_(0, deviation, generator));
    }
  };
}

struct LayerNorm {
  StageParameter* weight = nullptr;
  StageParameter* bias = nullptr;

  at::Tensor operator()(const at::Tensor& x) const {
    return at::layer_norm(x, weight->shape, weight->value, bias->value,
                          kNormEpsilon);
  }
};

struct Conv1d {
  StageParameter* weight = nullptr;
  StageParameter* bias = nullptr;

  at::Tensor operator()(const at::Tensor& x) const {
    std::vector<int64_t> sizes = x.sizes().vec();
    const at::Tensor rows = x.reshape({-1, sizes.back()});
    sizes.back() = weight->shape[1];
    return at::addmm(bias->value, rows, weight->value).view(sizes);
  }
};

struct Block {
  LayerNorm ln_1;
  Conv1d c_attn;
  Conv1d attn_c_proj;
  LayerNorm ln_2;
  Conv1d c_fc;
  Conv1d mlp_c_proj;
};

class Gpt2Stage final : public StageModel {
 public:
  Gpt2Stage(const job::JobSpec& spec, const StageAssignment& stage);

  std::vector<StageParameter*> parameters() override;
  std::vector<at::Tensor> Forward(std::vector<at::Tensor> inputs,
                                  const at::Tensor& targets) override;

 private:
  StageParameter* Add(const std::string& name, std::vector<int64_t> shape,
                      Initialiser initialise);
  LayerNorm AddLayerNorm(const std::string& name);
  Conv1d AddConv1d(const std::string& name, int64_t in, int64_t out,
                   double deviation);
  void AddEmbeddings();
  void AddBlock(int64_t layer);
  void AddHead();

  void CheckInput(const at::Tensor& input) const;
  at::Tensor Embed(const at::Tensor& tokens) const;
  at::Tensor Attention(const Block& block, const at::Tensor& x) const;
  at::Tensor RunBlock(const Block& block, const at::Tensor& x) const;
  at::Tensor Loss(const at::Tensor& x, const at::Tensor& targets) const;

  const job::ModelSpec model_;
  const int64_t seed_;
  const int64_t positions_;
  const StageAssignment stage_;
  int64_t next_global_index_ = 0;
  std::deque<StageParameter> parameters_;  // addresses stay
  StageParameter* wte_ = nullptr;
  StageParameter* wpe_ = nullptr;
  std::vector<Block> blocks_;
  LayerNorm ln_f_;
  StageParameter* lm_head_ = nullptr;
};

Gpt2Stage::Gpt2Stage(const job::JobSpec& spec, const StageAssignment& stage)
    : model_(spec.model),
      seed_(spec.seed),
      positions_(spec.data.sequence_length),
      stage_(stage) {
  // Global order: wte, wpe, the blocks, ln_f, lm_head.
  if (stage.first) AddEmbeddings();
  for (int64_t layer = stage.layers.begin; layer < stage.layers.end; ++layer) {
    AddBlock(layer);
  }
  if (stage.last) AddHead();
}

StageParameter* Gpt2Stage::Add(const std::string& name,
                               std::vector<int64_t> shape,
                               Initialiser initialise) {
  StageParameter parameter;
  parameter.name = name;
  parameter.shape = std::move(shape);
  parameter.global_index = next_global_index_++;
  parameter.initialise = std::move(initialise);
  parameters_.push_back(std::move(parameter));
  return &parameters_.back();
}

LayerNorm Gpt2Stage::AddLayerNorm(const std::string& name) {
  LayerNorm norm;
  norm.weight = Add(name + ".weight", {model_.hidden}, Constant(1));
  norm.bias = Add(name + ".bias", {model_.hidden}, Constant(0));
  return norm;
}

Conv1d Gpt2Stage::AddConv1d(const std::string& name, int64_t in, int64_t out,
                            double deviation) {
  Conv1d layer;
  const std::string weight = name + ".weight";
  layer.weight = Add(weight, {in, out}, Normal(deviation, seed_, weight));
  layer.bias = Add(name + ".bias", {out}, Constant(0));
  return layer;
}

void Gpt2Stage::AddEmbeddings() {
  next_global_index_ = 0;
  const std::string wte = "transformer.wte.weight";
  const std::string wpe = "transformer.wpe.weight";
  wte_ = Add(wte, {model_.vocabulary, model_.hidden},
             Normal(kInitialDeviation, seed_, wte));
  wte_->tied = model_.tie_embeddings;
  wpe_ = Add(wpe, {positions_, model_.hidden},
             Normal(kInitialDeviation, seed_, wpe));
}

void Gpt2Stage::AddBlock(int64_t layer) {
  next_global_index_ = 2 + kParametersPerBlock * layer;
  const std::string name = absl::StrCat("transformer.h.", layer);
  const int64_t hidden = model_.hidden;
  // What feeds the residual stream is smaller, as 2 of each block add up there.
  const double projection =
      kInitialDeviation / std::sqrt(2.0 * static_cast<double>(model_.layers));
  Block block;
  block.ln_1 = AddLayerNorm(name + ".ln_1");
  block.c_attn =
      AddConv1d(name + ".attn.c_attn", hidden, 3 * hidden, kInitialDeviation);
  block.attn_c_proj =
      AddConv1d(name + ".attn.c_proj", hidden, hidden, projection);
  block.ln_2 = AddLayerNorm(name + ".ln_2");
  block.c_fc =
      AddConv1d(name + ".mlp.c_fc", hidden, 4 * hidden, kInitialDeviation);
  block.mlp_c_proj =
      AddConv1d(name + ".mlp.c_proj", 4 * hidden, hidden, projection);
  blocks_.push_back(block);
}

void Gpt2Stage::AddHead() {
  next_global_index_ = 2 + kParametersPerBlock * model_.layers;
  ln_f_ = AddLayerNorm("transformer.ln_f");
  const std::string name = "lm_head.weight";
  const std::string embedding = "transformer.wte.weight";
  // A tied head is a second leaf that begins with the embedding's values.
  lm_head_ = Add(name, {model_.vocabulary, model_.hidden},
                 Normal(kInitialDeviation, seed_,
                        model_.tie_embeddings ? embedding : name));
  lm_head_->tied = model_.tie_embeddings;
  lm_head_->tied_copy = model_.tie_embeddings;
  lm_head_->tied_to = embedding;
}

std::vector<StageParameter*> Gpt2Stage::parameters() {
  std::vector<StageParameter*> all;
  for (StageParameter& parameter : parameters_) all.push_back(&parameter);
  return all;
}

void Gpt2Stage::CheckInput(const at::Tensor& input) const {
  const bool fits = stage_.first
                        ? input.dim() == 2 && input.size(1) == positions_
                        : input.dim() == 3 && input.size(1) == positions_ &&
                              input.size(2) == model_.hidden &&
                              input.scalar_type() == at::kFloat;
  if (fits) return;
  throw std::invalid_argument(absl::StrCat(
      "the input is ", c10::str(input.sizes()), ", GPT-2 takes ",
      stage_.first ? absl::StrCat("tokens [rows, ", positions_, "]")
                   : absl::StrCat("float32 [rows, ", positions_, ", ",
                                  model_.hidden, "]")));
}

at::Tensor Gpt2Stage::Embed(const at::Tensor& tokens) const {
  return at::embedding(wte_->value, tokens) + wpe_->value;
}

at::Tensor Gpt2Stage::Attention(const Block& block, const at::Tensor& x) const {
  const int64_t rows = x.size(0);
  const std::vector<at::Tensor> parts =
      block.c_attn(x).split(model_.hidden, /*dim=*/2);
  const auto heads = [this, rows](const at::Tensor& part) {
    return part
        .view({rows, positions_, model_.heads, model_.hidden / model_.heads})
        .transpose(1, 2);
  };
  const at::Tensor mixed = at::scaled_dot_product_attention(
      heads(parts[0]), heads(parts[1]), heads(parts[2]), /*attn_mask=*/{},
      /*dropout_p=*/0.0, /*is_causal=*/true);
  return block.attn_c_proj(
      mixed.transpose(1, 2).reshape({rows, positions_, model_.hidden}));
}

at::Tensor Gpt2Stage::RunBlock(const Block& block, const at::Tensor& x) const {
  const at::Tensor attended = x + Attention(block, block.ln_1(x));
  return attended + block.mlp_c_proj(at::gelu(block.c_fc(block.ln_2(attended)),
                                              /*approximate=*/"tanh"));
}

at::Tensor Gpt2Stage::Loss(const at::Tensor& x,
                           const at::Tensor& targets) const {
  if (targets.numel() != x.size(0) * positions_) {
    throw std::invalid_argument(
        absl::StrCat(x.size(0), " rows of activations, but ",
                     targets.numel() / positions_, " rows of targets"));
  }
  const at::Tensor rows = ln_f_(x).view({-1, model_.hidden});
  const at::Tensor logits = at::mm(rows, lm_head_->value.t());
  return at::cross_entropy_loss(logits, targets.reshape({-1}), /*weight=*/{},
                                at::Reduction::Sum);
}

std::vector<at::Tensor> Gpt2Stage::Forward(std::vector<at::Tensor> inputs,
                                           const at::Tensor& targets) {
  if (inputs.size() != 1) {
    throw std::invalid_argument(
        absl::StrCat(inputs.size(), " inputs, GPT-2 takes one"));
  }
  at::Tensor x = std::move(inputs[0]);
  CheckInput(x);
  if (stage_.first) x = Embed(x);
  for (const Block& block : blocks_) x = RunBlock(block, x);
  if (stage_.last) return {Loss(x, targets)};
  return {x};
}

absl::Status CheckSizes(const job::JobSpec& spec,
                        const StageAssignment& stage) {
  const job::ModelSpec& model = spec.model;
  if (model.layers < 1 || model.hidden < 1 || model.heads < 1 ||
      model.vocabulary < 1 || spec.data.sequence_length < 1) {
    return absl::InvalidArgumentError(
        "model.layers, model.hidden, model.heads, model.vocabulary and "
        "data.sequence_length must be at least 1");
  }
  if (model.hidden % model.heads != 0) {
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

}  // namespace

absl::StatusOr<std::unique_ptr<StageModel>> NewGpt2Stage(
    const job::JobSpec& spec, const StageAssignment& stage) {
  SC_RETURN_IF_ERROR(CheckSizes(spec, stage));
  return std::unique_ptr<StageModel>(std::make_unique<Gpt2Stage>(spec, stage));
}

}  // namespace stagecoach::worker
