#include "stage_worker/model/adapted_stage.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <deque>
#include <exception>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "job/boundary.h"
#include "stage_worker/engine/torch/dtypes.h"

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

class AdaptedStage final : public StageModel {
 public:
  AdaptedStage(const job::JobSpec& spec, const StageAssignment& stage,
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
  const job::Boundary boundary_;
  const std::unique_ptr<plugin::Stage> own_;
  std::deque<StageParameter> parameters_;
  std::set<std::string> names_;
  plugin::Position position_ = NotTraining();  // of the next Forward
};

AdaptedStage::AdaptedStage(const job::JobSpec& spec,
                           const StageAssignment& stage,
                           std::unique_ptr<plugin::Stage> own)
    : spec_(spec),
      stage_(stage),
      boundary_(job::BoundaryOf(spec)),
      own_(std::move(own)) {}

absl::Status AdaptedStage::TakeParameters() {
  for (plugin::Parameter& parameter : own_->parameters()) {
    SC_RETURN_IF_ERROR(Take(std::move(parameter)));
  }
  return absl::OkStatus();
}

absl::Status AdaptedStage::Take(plugin::Parameter parameter) {
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
  // The stage's own tensor becomes a second name of the engine's memory, for
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

std::vector<StageParameter*> AdaptedStage::parameters() {
  std::vector<StageParameter*> all;
  for (StageParameter& parameter : parameters_) all.push_back(&parameter);
  return all;
}

std::vector<at::Tensor> AdaptedStage::Forward(std::vector<at::Tensor> inputs,
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

// Everything but the number of rows: the last microbatch may have fewer.
bool Fits(const at::Tensor& output, const TensorDescriptor& expected) {
  return DTypeOf(output.scalar_type()) == expected.dtype &&
         output.dim() == static_cast<int64_t>(expected.shape.size()) &&
         output.sizes().slice(1) == at::IntArrayRef(expected.shape).slice(1);
}

// The loss is looked at by the engine.
void AdaptedStage::CheckOutputs(const std::vector<at::Tensor>& outputs) const {
  if (stage_.last) return;
  bool fit = outputs.size() == boundary_.tensors.size();
  job::Boundary returned;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) {
      throw std::invalid_argument(absl::StrCat(
          spec_.model.path, " returned nothing as tensor ", i,
          "; what is optional must be a tensor all the same, of zeros"));
    }
    returned.tensors.push_back(
        {DTypeOf(outputs[i].scalar_type()), outputs[i].sizes().vec()});
    fit = fit && Fits(outputs[i], boundary_.tensors[i]);
  }
  if (fit) return;
  throw std::invalid_argument(
      absl::StrCat(spec_.model.path, " returned ", returned.ToString(),
                   "; the job says ", boundary_.ToString(),
                   " (model.boundary or model.boundaries, for each row)"));
}

absl::string_view FirstLine(absl::string_view text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StageModel>> AdaptStage(
    const job::JobSpec& spec, const StageAssignment& stage,
    const NewOwnStage& make) {
  const auto refuse = [&spec](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(spec.model.path, ": ", why));
  };
  try {
    SC_ASSIGN_OR_RETURN(std::unique_ptr<plugin::Stage> own,
                        make(InfoOf(spec, stage)));
    if (own == nullptr) return refuse("it made no stage");
    auto model = std::make_unique<AdaptedStage>(spec, stage, std::move(own));
    SC_RETURN_IF_ERROR(model->TakeParameters());
    return std::unique_ptr<StageModel>(std::move(model));
  } catch (const c10::Error& error) {
    return refuse(FirstLine(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
}

}  // namespace stagecoach::worker
