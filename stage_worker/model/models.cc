#include <ATen/core/Tensor.h>

#include <stdexcept>

#include "absl/status/status.h"
#include "base/status.h"
#include "job/model_shape.h"
#include "stage_worker/model/plugin.h"
#include "stage_worker/model/stage_model.h"
#include "stage_worker/model/torch_script.h"
#include "stage_worker/model/weights.h"

namespace stagecoach::worker {
namespace {

absl::StatusOr<std::unique_ptr<StageModel>> NewDrawnModel(
    const job::JobSpec& spec, const StageAssignment& stage) {
  switch (spec.model.architecture) {
    case job::Architecture::kGpt2:
      return NewGpt2Stage(spec, stage);
    case job::Architecture::kLlama:
      return NewLlamaStage(spec, stage);
    case job::Architecture::kPlugin:
      return NewPluginStage(spec, stage);
    case job::Architecture::kTorchScript:
      return NewTorchScriptStage(spec, stage);
  }
  return absl::InternalError("unknown model.architecture");
}

// Own kernels compute in float32, and their attention neither takes a mask nor
// drops.
bool NeedsAten(const job::JobSpec& spec) {
  return spec.data.isolated() ||
         spec.training.precision != job::Precision::kFloat32 ||
         job::ConfigOf(spec).has_dropout();
}

}  // namespace

void StageModel::UseDocuments(const at::Tensor& /*documents*/) {
  throw std::invalid_argument(
      "this model cannot keep attention within documents; try data.documents "
      "= \"packed\"");
}

at::Tensor StageModel::Continue(const at::Tensor& /*tokens*/,
                                KeyValueCache* /*cache*/) {
  throw std::invalid_argument("this model cannot continue a text");
}

at::Tensor StageModel::Logits(const at::Tensor& /*hidden*/) {
  throw std::invalid_argument("this model gives a loss alone, and no logits");
}

absl::StatusOr<std::unique_ptr<StageModel>> NewStageModel(
    const job::JobSpec& job_spec, const StageAssignment& stage) {
  job::JobSpec spec = job_spec;
  if (NeedsAten(spec)) spec.training.kernels = job::KernelChoice::kAten;
  SC_ASSIGN_OR_RETURN(std::unique_ptr<StageModel> model,
                      NewDrawnModel(spec, stage));
  if (!spec.model.checkpoint.empty()) {
    SC_RETURN_IF_ERROR(StartFromCheckpoint(spec, model.get()));
  }
  return model;
}

}  // namespace stagecoach::worker
