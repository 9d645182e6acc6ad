#include "stage_worker/model/parameter_set.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "job/model_shape.h"

namespace stagecoach::worker {
namespace {

constexpr char kHead[] = "lm_head.weight";

// FNV-1a over "seed/name". Torch's CPU generator uses the low 32 bits.
uint64_t RandomKey(int64_t seed, absl::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char byte : absl::StrCat(seed, "/", name)) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  }
  return hash ^ (hash >> 32);
}

}  // namespace

Initialiser Constant(double value) {
  return [value](at::Tensor& parameter) { parameter.fill_(value); };
}

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

ParameterSet::ParameterSet(
    const job::JobSpec& spec, const StageAssignment& stage,
    const std::function<Initialiser(const std::string&)>& initialiser_of) {
  int64_t index = job::ParametersBefore(spec, stage.layers);
  for (job::ParameterShape& shape : job::StageParameters(spec, stage.layers)) {
    StageParameter parameter;
    parameter.initialise = initialiser_of(shape.name);
    parameter.name = shape.tied_copy ? kHead : shape.name;
    if (shape.tied_copy) parameter.tied_to = std::move(shape.name);
    parameter.shape = std::move(shape.shape);
    parameter.tied_copy = shape.tied_copy;
    // The first parameter of each family is the token embedding.
    parameter.tied =
        shape.tied_copy || (spec.model.tie_embeddings && index == 0);
    parameter.global_index = index++;
    parameters_.push_back(std::move(parameter));
  }
}

StageParameter* ParameterSet::Find(absl::string_view name) {
  for (StageParameter& parameter : parameters_) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

StageParameter* ParameterSet::Get(absl::string_view name) {
  StageParameter* const parameter = Find(name);
  if (parameter != nullptr) return parameter;
  throw std::out_of_range(absl::StrCat("the stage has no parameter ", name));
}

std::vector<StageParameter*> ParameterSet::All() {
  std::vector<StageParameter*> all;
  for (StageParameter& parameter : parameters_) all.push_back(&parameter);
  return all;
}

bool ParameterSet::AnyTrains(absl::string_view beginning) const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [beginning](const StageParameter& parameter) {
                       return absl::StartsWith(parameter.name, beginning) &&
                              parameter.gradient.defined();
                     });
}

}  // namespace stagecoach::worker
