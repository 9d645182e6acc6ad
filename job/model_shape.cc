#include "job/model_shape.h"

#include <utility>

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
  void AddNorm(const std::string& name, int64_t width) {
    Add(name + ".weight", {width});
    Add(name + ".bias", {width});
  }
  void AddLinear(const std::string& name, int64_t in, int64_t out) {
    Add(name + ".weight", {in, out});
    Add(name + ".bias", {out});
  }
  std::vector<ParameterShape> Take() { return std::move(parameters_); }

 private:
  std::vector<ParameterShape> parameters_;
};

void AddBlock(int64_t layer, int64_t hidden, ParameterList* list) {
  const std::string prefix = absl::StrCat("transformer.h.", layer, ".");
  list->AddNorm(prefix + "ln_1", hidden);
  list->AddLinear(prefix + "attn.c_attn", hidden, 3 * hidden);
  list->AddLinear(prefix + "attn.c_proj", hidden, hidden);
  list->AddNorm(prefix + "ln_2", hidden);
  list->AddLinear(prefix + "mlp.c_fc", hidden, 4 * hidden);
  list->AddLinear(prefix + "mlp.c_proj", 4 * hidden, hidden);
}

// Elements of embeddings, one block, and final norm: what counts need, without
// a list of every layer.
int64_t EmbeddingCount(const JobSpec& spec) {
  return (spec.model.vocabulary + spec.data.sequence_length) *
         spec.model.hidden;
}
int64_t BlockCount(const JobSpec& spec) {
  const int64_t hidden = spec.model.hidden;
  return 12 * hidden * hidden + 13 * hidden;
}
int64_t NormCount(const JobSpec& spec) { return 2 * spec.model.hidden; }
int64_t HeadCount(const JobSpec& spec) {
  return spec.model.vocabulary * spec.model.hidden;
}

TensorDescriptor PerToken(const JobSpec& spec, int64_t width) {
  TensorDescriptor descriptor;
  descriptor.dtype = DType::kFloat32;
  descriptor.shape = {spec.training.microbatch_size, spec.data.sequence_length,
                      width};
  return descriptor;
}

}  // namespace

int64_t ParameterShape::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

std::vector<ParameterShape> StageParameters(const JobSpec& spec,
                                            const StageLayers& layers) {
  const ModelSpec& model = spec.model;
  ParameterList list;
  if (layers.begin == 0) {
    list.Add("transformer.wte.weight", {model.vocabulary, model.hidden});
    list.Add("transformer.wpe.weight",
             {spec.data.sequence_length, model.hidden});
  }
  for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
    AddBlock(layer, model.hidden, &list);
  }
  if (layers.end == model.layers) {
    list.AddNorm("transformer.ln_f", model.hidden);
    list.Add(model.tie_embeddings ? "transformer.wte.weight" : "lm_head.weight",
             {model.vocabulary, model.hidden}, model.tie_embeddings);
  }
  return list.Take();
}

int64_t StageParameterCount(const JobSpec& spec, const StageLayers& layers) {
  int64_t count = (layers.end - layers.begin) * BlockCount(spec);
  if (layers.begin == 0) count += EmbeddingCount(spec);
  if (layers.end == spec.model.layers) {
    count += NormCount(spec) + HeadCount(spec);
  }
  return count;
}

int64_t ModelParameterCount(const JobSpec& spec) {
  StageLayers all;
  all.end = spec.model.layers;
  return StageParameterCount(spec, all) -
         (spec.model.tie_embeddings ? HeadCount(spec) : 0);
}

TensorDescriptor BoundaryOf(const JobSpec& spec) {
  return PerToken(spec, spec.model.hidden);
}

TensorDescriptor LogitsOf(const JobSpec& spec) {
  return PerToken(spec, spec.model.vocabulary);
}

}  // namespace stagecoach::job
