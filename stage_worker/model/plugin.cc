#include "stage_worker/model/plugin.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <dlfcn.h>

#include <deque>
#include <exception>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "stagecoach/plugin.h"

namespace stagecoach::worker {
namespace {

// Parameters of one layer that have a place of their own in the order over the
// whole model.
constexpr int64_t kParametersOfLayer = int64_t{1} << 20;

plugin::Position NotTraining() {
  plugin::Position position;
  position.training = false;
  return position;
}

plugin::StageInfo InfoOf(const job::JobSpec& spec,
                         const StageAssignment& stage) {
  plugin::StageInfo info;
  info.layer_begin = stage.layers.begin;
  info.layer_end = stage.layers.end;
  info.first = stage.first;
  info.last = stage.last;
  info.layers = spec.model.layers;
  info.hidden = spec.model.hidden;
  info.heads = spec.model.heads;
  info.vocabulary = spec.model.vocabulary;
  info.sequence_length = spec.data.sequence_length;
  info.options = spec.model.options;
  info.seed = spec.seed;
  return info;
}

class PluginStage final : public StageModel {
 public:
  PluginStage(const job::JobSpec& spec, const StageAssignment& stage,
              std::unique_ptr<plugin::Stage> own);

  absl::Status TakeParameters();
  std::vector<StageParameter*> parameters() override;
  void UseDropout(const DropoutPosition& position) override {
    position_.training = true;
    position_.step = position.step;
    position_.microbatch = position.microbatch;
  }
  std::vector<at::Tensor> Forward(std::vector<at::Tensor> inputs,
                                  const at::Tensor& targets) override;

 private:
  absl::Status Take(plugin::Parameter parameter);
  void CheckOutputs(const std::vector<at::Tensor>& outputs) const;

  const job::JobSpec spec_;
  const StageAssignment stage_;
  const std::unique_ptr<plugin::Stage> own_;
  std::deque<StageParameter> parameters_;
  std::set<std::string> names_;
  plugin::Position position_ = NotTraining();  // of the next Forward
};

PluginStage::PluginStage(const job::JobSpec& spec, const StageAssignment& stage,
                         std::unique_ptr<plugin::Stage> own)
    : spec_(spec), stage_(stage), own_(std::move(own)) {}

absl::Status PluginStage::TakeParameters() {
  for (plugin::Parameter& parameter : own_->parameters()) {
    SC_RETURN_IF_ERROR(Take(std::move(parameter)));
  }
  return absl::OkStatus();
}

absl::Status PluginStage::Take(plugin::Parameter parameter) {
  const at::Tensor& value = parameter.value;
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec_.model.path, ": parameter \"", parameter.name, "\" ", why));
  };
  if (!names_.insert(parameter.name).second) return refuse("is there twice");
  if (!value.defined() || value.scalar_type() != at::kFloat ||
      !value.is_contiguous()) {
    return refuse("must be a contiguous tensor of float32");
  }
  if (!value.is_leaf() || !value.requires_grad()) {
    return refuse("must be a leaf that requires a gradient");
  }
  StageParameter taken;
  taken.name = parameter.name;
  taken.shape = value.sizes().vec();
  // A function of the model's order alone, however it is cut.
  taken.global_index = stage_.layers.begin * kParametersOfLayer +
                       static_cast<int64_t>(parameters_.size());
  parameters_.push_back(std::move(taken));
  // The plugin's own tensor becomes a second name of the engine's memory, for
  // value and gradient.
  StageParameter& entry = parameters_.back();
  entry.initialise = [&entry, own = value](at::Tensor& engines) {
    const at::NoGradGuard no_grad;
    engines.copy_(own);
    own.set_data(engines.detach());
    if (entry.gradient.defined()) own.mutable_grad() = entry.gradient;
  };
  return absl::OkStatus();
}

std::vector<StageParameter*> PluginStage::parameters() {
  std::vector<StageParameter*> all;
  for (StageParameter& parameter : parameters_) all.push_back(&parameter);
  return all;
}

std::vector<at::Tensor> PluginStage::Forward(std::vector<at::Tensor> inputs,
                                             const at::Tensor& targets) {
  at::Tensor given = targets;
  if (stage_.last && spec_.data.targets == "last") {
    given = targets.select(/*dim=*/1, targets.size(1) - 1).contiguous();
  }
  const plugin::Position position = std::exchange(position_, NotTraining());
  std::vector<at::Tensor> outputs =
      own_->Forward(std::move(inputs), given, position);
  CheckOutputs(outputs);
  return outputs;
}

// The loss is looked at by the engine.
void PluginStage::CheckOutputs(const std::vector<at::Tensor>& outputs) const {
  if (stage_.last) return;
  if (outputs.size() != 1 || !outputs[0].defined() ||
      outputs[0].scalar_type() != at::kFloat) {
    throw std::invalid_argument(
        absl::StrCat(spec_.model.path, " returned ", outputs.size(),
                     " tensors; a stage returns one, of float32"));
  }
  std::vector<int64_t> row = spec_.model.boundary;
  if (row.empty()) row = {spec_.data.sequence_length, spec_.model.hidden};
  const at::IntArrayRef sizes = outputs[0].sizes();
  if (sizes.empty() || sizes.slice(1) != at::IntArrayRef(row)) {
    throw std::invalid_argument(
        absl::StrCat(spec_.model.path, " returned ", c10::str(sizes),
                     "; model.boundary says ", c10::str(at::IntArrayRef(row)),
                     " for each row"));
  }
}

absl::StatusOr<const plugin::Library*> Load(const std::string& path) {
  // Never closed: its code may be behind any tensor's graph.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("cannot load model.path: ", dlerror()));
  }
  using Entry = const plugin::Library* (*)();
  const auto entry =
      reinterpret_cast<Entry>(dlsym(handle, "stagecoach_plugin"));
  const plugin::Library* const library = entry == nullptr ? nullptr : entry();
  if (library == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     " is no plugin: it has no STAGECOACH_PLUGIN of "
                     "stagecoach/plugin.h"));
  }
  if (library->interface_version != plugin::kInterfaceVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " was built for version ", library->interface_version,
        " of stagecoach/plugin.h, this worker has version ",
        plugin::kInterfaceVersion, "; build it again"));
  }
  if (absl::string_view(library->torch_version) != TORCH_VERSION) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " was built for libtorch ", library->torch_version,
                     ", this worker has ", TORCH_VERSION, "; build it again"));
  }
  return library;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StageModel>> NewPluginStage(
    const job::JobSpec& spec, const StageAssignment& stage) {
  SC_ASSIGN_OR_RETURN(const plugin::Library* const library,
                      Load(spec.model.path));
  try {
    std::unique_ptr<plugin::Stage> own =
        library->new_stage(InfoOf(spec, stage));
    if (own == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec.model.path, " made no stage"));
    }
    auto model = std::make_unique<PluginStage>(spec, stage, std::move(own));
    SC_RETURN_IF_ERROR(model->TakeParameters());
    return std::unique_ptr<StageModel>(std::move(model));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.model.path, ": ", error.what()));
  }
}

}  // namespace stagecoach::worker
