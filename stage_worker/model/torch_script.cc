#include "stage_worker/model/torch_script.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stage_worker/model/adapted_stage.h"
#include "stagecoach/plugin.h"

namespace stagecoach::worker {
namespace {

using torch::jit::Module;

// One step of SplitMix64 (Steele et al. 2014).
uint64_t Mix(uint64_t state, uint64_t value) {
  uint64_t z = state + value + 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Throws std::invalid_argument if two names are one tensor: on two stages they
// would become two.
void CheckUntied(const Module& model) {
  std::map<const void*, std::string> names;
  for (const auto& parameter : model.named_parameters()) {
    if (parameter.value.numel() == 0) continue;
    const auto [it, added] =
        names.emplace(parameter.value.const_data_ptr(), parameter.name);
    if (!added) {
      throw std::invalid_argument(
          absl::StrCat("its parameters ", it->second, " and ", parameter.name,
                       " are one tensor; tied parameters are not supported"));
    }
  }
}

// The module that it calls so.
Module PartOf(const Module& model, const char* name) {
  if (model.hasattr(name) && model.attr(name).isModule()) {
    return model.attr(name).toModule();
  }
  throw std::invalid_argument(
      absl::StrCat("it has no module `", name,
                   "`; embedding, layers and head are what it must have"));
}

std::vector<at::Tensor> TensorsOf(const c10::IValue& result) {
  if (result.isTensor()) return {result.toTensor()};
  std::vector<at::Tensor> tensors;
  if (result.isTuple()) {
    for (const c10::IValue& element : result.toTupleRef().elements()) {
      tensors.push_back(element.toTensor());
    }
  }
  return tensors;  // of anything else none, which does not fit
}

class TorchScriptStage final : public plugin::Stage {
 public:
  // Throws what torch throws, and std::invalid_argument.
  TorchScriptStage(const plugin::StageInfo& info, const Module& model);

  std::vector<plugin::Parameter> parameters() override;
  std::vector<at::Tensor> Forward(std::vector<at::Tensor> inputs,
                                  const at::Tensor& targets,
                                  const plugin::Position& position) override;

 private:
  // One module that this stage runs, and where what it draws begins.
  struct Part {
    std::string prefix;  // of its parameters' names
    Module module;
    int64_t place = 0;  // in the model
  };

  void SeedFor(const Part& part, const plugin::Position& position) const;

  const plugin::StageInfo info_;
  std::vector<Part> parts_;  // in the order in which they run
  bool training_ = false;    // what the modules were told
};

TorchScriptStage::TorchScriptStage(const plugin::StageInfo& info,
                                   const Module& model)
    : info_(info) {
  CheckUntied(model);
  const Module embedding = PartOf(model, "embedding");
  const Module layers = PartOf(model, "layers");
  const Module head = PartOf(model, "head");
  const auto count = static_cast<int64_t>(layers.children().size());
  if (count != info.layers) {
    throw std::invalid_argument(
        absl::StrCat("it has ", count, " layers; set model.layers = ", count));
  }
  if (info.first) parts_.push_back({"embedding.", embedding, 0});
  int64_t layer = 0;
  for (const Module& module : layers.children()) {
    const int64_t place = layer + 1;
    if (layer >= info.layer_begin && layer < info.layer_end) {
      parts_.push_back({absl::StrCat("layers.", layer, "."), module, place});
    }
    ++layer;
  }
  if (info.last) parts_.push_back({"head.", head, count + 1});
  if (parts_.empty()) {
    throw std::invalid_argument(
        "a stage between the first and the last has no layer; lower "
        "pipeline.stages_per_worker or change pipeline.split");
  }
  for (Part& part : parts_) part.module.eval();
}

std::vector<plugin::Parameter> TorchScriptStage::parameters() {
  std::vector<plugin::Parameter> all;
  for (const Part& part : parts_) {
    for (const auto& parameter : part.module.named_parameters()) {
      // The others stay as they are.
      if (!parameter.value.requires_grad()) continue;
      all.push_back(
          {absl::StrCat(part.prefix, parameter.name), parameter.value});
    }
  }
  return all;
}

// What a part draws depends on its place and the position alone.
void TorchScriptStage::SeedFor(const Part& part,
                               const plugin::Position& position) const {
  auto seed = static_cast<uint64_t>(info_.seed);
  for (const int64_t word : {position.step, position.microbatch, part.place}) {
    seed = Mix(seed, static_cast<uint64_t>(word));
  }
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

std::vector<at::Tensor> TorchScriptStage::Forward(
    std::vector<at::Tensor> inputs, const at::Tensor& targets,
    const plugin::Position& position) {
  // Autograd then sees single operations, which a split backward needs, and
  // nothing is fused after some microbatches.
  const torch::jit::GraphOptimizerEnabledGuard plain(false);
  if (training_ != position.training) {
    training_ = position.training;
    for (Part& part : parts_) part.module.train(training_);
  }
  std::vector<at::Tensor> tensors = std::move(inputs);
  for (Part& part : parts_) {
    std::vector<c10::IValue> given(std::make_move_iterator(tensors.begin()),
                                   std::make_move_iterator(tensors.end()));
    tensors.clear();
    if (part.place > info_.layers) given.emplace_back(targets);
    SeedFor(part, position);
    tensors = TensorsOf(part.module.forward(std::move(given)));
  }
  return tensors;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StageModel>> NewTorchScriptStage(
    const job::JobSpec& spec, const StageAssignment& stage) {
  return AdaptStage(spec, stage,
                    [&spec](const plugin::StageInfo& info)
                        -> absl::StatusOr<std::unique_ptr<plugin::Stage>> {
                      return std::make_unique<TorchScriptStage>(
                          info, torch::jit::load(spec.model.path, at::kCPU));
                    });
}

}  // namespace stagecoach::worker
