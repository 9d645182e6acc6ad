#include "stage_worker/engine/torch/torch_stage_engine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <malloc.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "job/recompute.h"
#include "stage_worker/engine/torch/torch_status.h"
#include "stage_worker/engine/torch/torch_tensor.h"

namespace stagecoach::worker {

schedule::Action Act(schedule::ActionKind kind, StageIndex stage,
                     MicrobatchIndex microbatch) {
  schedule::Action action;
  action.kind = kind;
  action.stage = stage;
  action.microbatch = microbatch;
  return action;
}

memory::Tag ActivationTag(StageIndex stage, MicrobatchIndex microbatch) {
  memory::Tag tag;
  tag.category = memory::Category::kActivation;
  tag.stage = stage;
  tag.microbatch = microbatch;
  return tag;
}

memory::Tag PlainTag(memory::Category category) {
  memory::Tag tag;
  tag.category = category;
  return tag;
}

const at::Tensor& TensorOf(const TensorRef& ref) {
  const auto* const tensor = dynamic_cast<const TorchTensor*>(ref.get());
  if (tensor == nullptr) {
    throw std::invalid_argument("a tensor that is not of this engine");
  }
  return tensor->tensor();
}

Tensors TensorsOf(const std::vector<TensorRef>& refs) {
  Tensors tensors;
  for (const TensorRef& ref : refs) tensors.push_back(TensorOf(ref));
  return tensors;
}

GiveMemoryBack::~GiveMemoryBack() { malloc_trim(0); }

StepProtocol::Options TorchEngine::ProtocolOptions(
    const EngineOptions& options) {
  StepProtocol::Options protocol;
  protocol.stages = options.stages;
  protocol.microbatches = options.spec.training.microbatches;
  return protocol;
}

std::set<StageIndex> TorchEngine::RecomputedStages(
    const EngineOptions& options) {
  std::set<StageIndex> stages;
  for (const StageAssignment& stage : options.stages) {
    if (job::RecomputeOf(options.spec, stage.stage).full) {
      stages.insert(stage.stage);
    }
  }
  return stages;
}

absl::Status TorchEngine::Build(const EngineOptions& options,
                                const StageModelFactory& factory,
                                const std::string& mapping_directory) {
  std::vector<StageParameter*> parameters;
  const memory::ScopedTag tag(PlainTag(memory::Category::kWorkspace));
  for (const StageAssignment& stage : options.stages) {
    SC_ASSIGN_OR_RETURN(models_[stage.stage], factory(options.spec, stage));
    for (StageParameter* parameter : models_[stage.stage]->parameters()) {
      parameters.push_back(parameter);
    }
  }
  UseThreadsHere();
  return CatchTorch("building the stages", [&] {
    const bool mapped =
        options.spec.memory.optimizer == job::OptimizerPlace::kMapped;
    parameters_ = std::make_unique<ParameterStore>(
        training_, device_, parameters, mapped ? mapping_directory : "");
    // They may hold a checkpoint's files.
    for (StageParameter* parameter : parameters) parameter->initialise = {};
    return absl::OkStatus();
  });
}

// OpenMP keeps the number of threads per calling thread, and another engine may
// have set it in between.
void TorchEngine::UseThreadsHere() {
  const int threads = static_cast<int>(training_.threads);
  if (at::get_num_threads() != threads) at::set_num_threads(threads);
}

absl::StatusOr<TensorRef> TorchEngine::Adopt(const TensorDescriptor& descriptor,
                                             void* data,
                                             std::shared_ptr<void> memory) {
  return CatchTorch("received tensor", [&]() -> absl::StatusOr<TensorRef> {
    SC_ASSIGN_OR_RETURN(at::Tensor tensor,
                        AdoptMemory(descriptor, data, std::move(memory)));
    return std::make_shared<TorchTensor>(std::move(tensor));
  });
}

absl::Status TorchEngine::BeginStep(StepIndex step, int64_t target_tokens) {
  SC_RETURN_IF_ERROR(protocol_.Begin(step, target_tokens));
  graphs_.clear();
  kept_inputs_.clear();
  losses_.clear();
  UseThreadsHere();
  return CatchTorch(absl::StrCat("step ", step.value()), [this] {
    parameters_->ZeroGradients();
    return absl::OkStatus();
  });
}

absl::Status TorchEngine::BeginEvaluation(StepIndex step, DataSource* data,
                                          int64_t microbatches) {
  SC_RETURN_IF_ERROR(protocol_.BeginEvaluation(step, microbatches));
  evaluation_data_ = data;
  graphs_.clear();
  kept_inputs_.clear();
  losses_.clear();
  UseThreadsHere();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MicrobatchLoss>> TorchEngine::FinishEvaluation() {
  SC_RETURN_IF_ERROR(protocol_.Finish());
  return Losses();
}

std::vector<MicrobatchLoss> TorchEngine::Losses() const {
  std::vector<MicrobatchLoss> losses;
  for (const auto& [microbatch, loss_sum] : losses_) {
    MicrobatchLoss loss;
    loss.microbatch = microbatch;
    loss.loss_sum = loss_sum;
    losses.push_back(loss);
  }
  return losses;
}

absl::StatusOr<GradientReport> TorchEngine::FinishGradients() {
  SC_RETURN_IF_ERROR(protocol_.Finish());
  GradientReport report;
  report.losses = Losses();
  for (const MicrobatchLoss& loss : report.losses) {
    report.all_finite = report.all_finite && std::isfinite(loss.loss_sum);
  }
  return CatchTorch(
      absl::StrCat("step ", protocol_.step().value()),
      [&]() -> absl::StatusOr<GradientReport> {
        const memory::ScopedTag tag(PlainTag(memory::Category::kWorkspace));
        if (loss_scale_ != 1) parameters_->ScaleGradients(1 / loss_scale_);
        report.norms = parameters_->SquaredNorms();
        for (const ParameterNorm& norm : report.norms) {
          report.all_finite = report.all_finite && std::isfinite(norm.squared);
        }
        return report;
      });
}

absl::Status TorchEngine::ApplyUpdate(const UpdateOptions& options) {
  SC_RETURN_IF_ERROR(protocol_.Update(options.step));
  return CatchTorch(absl::StrCat("update of step ", options.step.value()), [&] {
    const memory::ScopedTag tag(PlainTag(memory::Category::kWorkspace));
    parameters_->Update(options);
    return absl::OkStatus();
  });
}

void TorchEngine::Drop() {
  protocol_.Drop();
  offered_.reset();
  graphs_.clear();
  kept_inputs_.clear();
  losses_.clear();
}

absl::StatusOr<std::vector<ParameterDigest>> TorchEngine::DigestParameters() {
  return CatchTorch("digest of the parameters", [this] {
    return absl::StatusOr<std::vector<ParameterDigest>>(parameters_->Digests());
  });
}

absl::StatusOr<std::vector<StageState>> TorchEngine::ExportState() {
  return CatchTorch("copy of the training state", [this] {
    const memory::ScopedTag tag(PlainTag(memory::Category::kOther));
    std::vector<StageState> states;
    for (const StageAssignment& stage : stages_) {
      StageState state;
      state.stage = stage;
      parameters_->Export(models_[stage.stage]->parameters(), &state);
      states.push_back(std::move(state));
    }
    return absl::StatusOr<std::vector<StageState>>(std::move(states));
  });
}

absl::Status TorchEngine::ImportParameters(const StateReader& read) {
  return CatchTorch("loading the parameters", [&] {
    const memory::ScopedTag tag(PlainTag(memory::Category::kWorkspace));
    return parameters_->ImportValues(read);
  });
}

absl::Status TorchEngine::ImportOptimizer(const StateReader& read) {
  return CatchTorch("loading the optimizer's state", [&] {
    const memory::ScopedTag tag(PlainTag(memory::Category::kWorkspace));
    return parameters_->ImportOptimizer(read);
  });
}

}  // namespace stagecoach::worker
