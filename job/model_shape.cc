#include "job/model_shape.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::job {
namespace {

class ParameterList {
 public:
  void Add(std::string name, std::vector<int64_t> shape,
           bool tied_copy = false) {
    ParameterShape parameter;
    parameter.name = std::move(name);
    parameter.shape = std::move(shape);
    parameter.tied_copy = tied_copy;
    parameters_.push_back(std::move(parameter));
  }
  void AddHead(const ModelSpec& model, const std::string& embedding) {
    Add(model.tie_embeddings ? embedding : "lm_head.weight",
        {model.vocabulary, model.hidden}, model.tie_embeddings);
  }
  int64_t elements() const {
    int64_t sum = 0;
    for (const ParameterShape& parameter : parameters_) {
      sum += parameter.elements();
    }
    return sum;
  }
  int64_t size() const { return static_cast<int64_t>(parameters_.size()); }
  std::vector<ParameterShape> Take() { return std::move(parameters_); }

 private:
  std::vector<ParameterShape> parameters_;
};

// What a family consists of, part by part. Every block has the same shapes.
class Family {
 public:
  explicit Family(const JobSpec& spec)
      : model_(spec.model), config_(ConfigOf(spec)) {}
  virtual ~Family() = default;
  virtual void AddEmbeddings(ParameterList* list) const = 0;
  virtual void AddBlock(int64_t layer, ParameterList* list) const = 0;
  virtual void AddHead(ParameterList* list) const = 0;

 protected:
  const ModelSpec& model_;
  const ModelConfig config_;
};

class Gpt2 final : public Family {
 public:
  using Family::Family;

  void AddEmbeddings(ParameterList* list) const override {
    list->Add("transformer.wte.weight", {model_.vocabulary, model_.hidden});
    list->Add("transformer.wpe.weight", {config_.positions, model_.hidden});
  }
  void AddBlock(int64_t layer, ParameterList* list) const override {
    const std::string prefix = absl::StrCat("transformer.h.", layer, ".");
    const int64_t hidden = model_.hidden;
    AddNorm(prefix + "ln_1", list);
    AddLinear(prefix + "attn.c_attn", hidden, 3 * hidden, list);
    AddLinear(prefix + "attn.c_proj", hidden, hidden, list);
    AddNorm(prefix + "ln_2", list);
    AddLinear(prefix + "mlp.c_fc", hidden, config_.inner, list);
    AddLinear(prefix + "mlp.c_proj", config_.inner, hidden, list);
  }
  void AddHead(ParameterList* list) const override {
    AddNorm("transformer.ln_f", list);
    list->AddHead(model_, "transformer.wte.weight");
  }

 private:
  void AddNorm(const std::string& name, ParameterList* list) const {
    list->Add(name + ".weight", {model_.hidden});
    list->Add(name + ".bias", {model_.hidden});
  }
  static void AddLinear(const std::string& name, int64_t in, int64_t out,
                        ParameterList* list) {
    list->Add(name + ".weight", {in, out});
    list->Add(name + ".bias", {out});
  }
};

class Llama final : public Family {
 public:
  using Family::Family;

  void AddEmbeddings(ParameterList* list) const override {
    list->Add("model.embed_tokens.weight", {model_.vocabulary, model_.hidden});
  }
  void AddBlock(int64_t layer, ParameterList* list) const override {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    list->Add(prefix + "input_layernorm.weight", {model_.hidden});
    AddAttention(prefix + "self_attn.", list);
    list->Add(prefix + "post_attention_layernorm.weight", {model_.hidden});
    const bool bias = config_.mlp_bias;
    AddLinear(prefix + "mlp.gate_proj", model_.hidden, config_.inner, bias,
              list);
    AddLinear(prefix + "mlp.up_proj", model_.hidden, config_.inner, bias, list);
    AddLinear(prefix + "mlp.down_proj", config_.inner, model_.hidden, bias,
              list);
  }
  void AddHead(ParameterList* list) const override {
    list->Add("model.norm.weight", {model_.hidden});
    list->AddHead(model_, "model.embed_tokens.weight");
  }

 private:
  void AddAttention(const std::string& prefix, ParameterList* list) const {
    const int64_t queries = model_.heads * config_.head_width;
    const int64_t keys = config_.key_value_heads * config_.head_width;
    const bool bias = config_.query_key_value_bias;
    AddLinear(prefix + "q_proj", model_.hidden, queries, bias, list);
    AddLinear(prefix + "k_proj", model_.hidden, keys, bias, list);
    AddLinear(prefix + "v_proj", model_.hidden, keys, bias, list);
    AddLinear(prefix + "o_proj", queries, model_.hidden,
              config_.attention_output_bias, list);
    if (!config_.query_key_norm) return;
    list->Add(prefix + "q_norm.weight", {config_.head_width});
    list->Add(prefix + "k_norm.weight", {config_.head_width});
  }
  static void AddLinear(const std::string& name, int64_t in, int64_t out,
                        bool bias, ParameterList* list) {
    list->Add(name + ".weight", {out, in});
    if (bias) list->Add(name + ".bias", {out});
  }
};

// Its parameters are known to the stages that the job brings.
class OwnStages final : public Family {
 public:
  using Family::Family;

  void AddEmbeddings(ParameterList* /*list*/) const override {}
  void AddBlock(int64_t /*layer*/, ParameterList* /*list*/) const override {}
  void AddHead(ParameterList* /*list*/) const override {}
};

// Keeps a reference to `spec`.
std::unique_ptr<Family> FamilyOf(const JobSpec& spec) {
  if (spec.model.brings_stages()) {
    return std::make_unique<OwnStages>(spec);
  }
  if (spec.model.architecture == Architecture::kLlama) {
    return std::make_unique<Llama>(spec);
  }
  return std::make_unique<Gpt2>(spec);
}

using Part = void (Family::*)(ParameterList* list) const;

ParameterList ListOf(const Family& family, Part part) {
  ParameterList list;
  (family.*part)(&list);
  return list;
}

// One block for all: a model may have many layers.
ParameterList BlockOf(const Family& family) {
  ParameterList list;
  family.AddBlock(0, &list);
  return list;
}

int64_t LlamaInner(int64_t hidden) {
  constexpr int64_t kMultiple = 256;
  const int64_t inner = 8 * hidden / 3;
  return (inner + kMultiple - 1) / kMultiple * kMultiple;
}

// A Llama has dropout in attention alone.
void SetDropout(const ModelSpec& model, ModelConfig* config) {
  config->attention_dropout = model.dropout;
  if (model.architecture != Architecture::kGpt2) return;
  config->embedding_dropout = model.dropout;
  config->residual_dropout = model.dropout;
}

}  // namespace

int64_t ParameterShape::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

ModelConfig ConfigOf(const JobSpec& spec) {
  const ModelSpec& model = spec.model;
  ModelConfig config = model.config.value_or(ModelConfig());
  if (model.dropout >= 0) SetDropout(model, &config);
  if (model.config.has_value()) return config;
  config.positions = spec.data.sequence_length;
  if (model.architecture == Architecture::kLlama) {
    config.inner = LlamaInner(model.hidden);
    config.activation = Activation::kSilu;
    config.key_value_heads = model.heads;
    config.head_width = model.hidden / model.heads;
  } else if (model.architecture == Architecture::kGpt2) {
    config.inner = 4 * model.hidden;
  }
  return config;
}

std::vector<ParameterShape> StageParameters(const JobSpec& spec,
                                            const StageLayers& layers) {
  const std::unique_ptr<Family> family = FamilyOf(spec);
  ParameterList list;
  if (layers.begin == 0) family->AddEmbeddings(&list);
  for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
    family->AddBlock(layer, &list);
  }
  if (layers.end == spec.model.layers) family->AddHead(&list);
  return list.Take();
}

int64_t ParametersBefore(const JobSpec& spec, const StageLayers& layers) {
  if (layers.begin == 0) return 0;
  const std::unique_ptr<Family> family = FamilyOf(spec);
  return ListOf(*family, &Family::AddEmbeddings).size() +
         layers.begin * BlockOf(*family).size();
}

int64_t StageParameterCount(const JobSpec& spec, const StageLayers& layers) {
  const std::unique_ptr<Family> family = FamilyOf(spec);
  int64_t count = (layers.end - layers.begin) * BlockOf(*family).elements();
  if (layers.begin == 0) {
    count += ListOf(*family, &Family::AddEmbeddings).elements();
  }
  if (layers.end == spec.model.layers) {
    count += ListOf(*family, &Family::AddHead).elements();
  }
  return count;
}

int64_t ModelParameterCount(const JobSpec& spec) {
  StageLayers all;
  all.end = spec.model.layers;
  const ModelSpec& model = spec.model;
  return StageParameterCount(spec, all) -
         (model.tie_embeddings ? model.vocabulary * model.hidden : 0);
}

bool IsFrozen(const TrainingSpec& training, const std::string& name) {
  return std::any_of(training.freeze.begin(), training.freeze.end(),
                     [&](const std::string& beginning) {
                       return absl::StartsWith(name, beginning);
                     });
}

bool SumsTiedGradients(const JobSpec& spec) {
  if (!spec.model.tie_embeddings) return false;
  StageLayers first;
  first.end = 0;
  // The first parameter of each family is the token embedding.
  return !IsFrozen(spec.training, StageParameters(spec, first).front().name);
}

DType ComputeTypeOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      break;
    case Precision::kBFloat16:
      return DType::kBFloat16;
    case Precision::kFloat16:
      return DType::kFloat16;
  }
  return DType::kFloat32;
}

TensorDescriptor LogitsOf(const JobSpec& spec) {
  TensorDescriptor logits;
  logits.shape = {spec.training.microbatch_size, spec.data.sequence_length,
                  spec.model.vocabulary};
  return logits;
}

}  // namespace stagecoach::job
