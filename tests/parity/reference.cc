#include "tests/parity/reference.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "job/hf_config.h"
#include "nlohmann/json.hpp"

namespace stagecoach::parity {
namespace {

using nlohmann::json;

job::TrainingSpec TrainingOf(const json& train) {
  job::TrainingSpec training;
  training.steps = train.at("steps");
  training.microbatches = train.at("microbatches");
  training.microbatch_size = train.at("microbatch_size");
  training.optimizer = job::OptimizerKind::kAdamW;
  training.betas = {train.at("betas").at(0), train.at("betas").at(1)};
  training.epsilon = train.at("eps");
  training.weight_decay = train.at("weight_decay");
  training.learning_rate = train.at("lr_max");
  training.minimum_learning_rate = train.at("lr_min");
  training.learning_rate_schedule = job::LearningRateSchedule::kCosine;
  training.warmup_steps = train.at("warmup_steps");
  training.gradient_clip = train.at("clip_grad_norm");
  return training;
}

absl::Status ReadFinalValues(const std::string& path, const json& spreads,
                             Reference* reference) {
  SC_ASSIGN_OR_RETURN(const auto file, checkpoint::SafetensorsFile::Open(path));
  for (const auto& [name, tensor] : file->header().tensors) {
    SC_ASSIGN_OR_RETURN(const checkpoint::StoredTensor stored,
                        file->Find(name));
    Reference::Parameter& parameter = reference->parameters[name];
    parameter.final_value.resize(
        static_cast<size_t>(tensor.descriptor.elements()));
    SC_RETURN_IF_ERROR(
        checkpoint::CopyAsFloat32(stored, parameter.final_value.data()));
    parameter.final_spread = spreads.at(name).at("max_abs_diff_of_variants");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Reference> LoadReference(const std::string& folder) {
  SC_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(folder + "/reference.json", 1 << 24));
  const json numbers = json::parse(text);
  Reference reference;
  SC_ASSIGN_OR_RETURN(reference.spec.model, job::LoadHfConfig(folder));
  reference.spec.model.checkpoint = folder;
  reference.spec.name = numbers.at("case");
  reference.spec.training = TrainingOf(numbers.at("train"));
  reference.spec.data.sequence_length = numbers.at("train").at("seq");
  numbers.at("tokens").get_to(reference.tokens);
  for (const json& step : numbers.at("steps")) {
    Reference::Step read;
    step.at("microbatch_losses").get_to(read.microbatch_losses);
    read.gradient_norm = step.at("grad_norm");
    read.learning_rate = step.at("lr");
    reference.steps.push_back(read);
  }
  SC_RETURN_IF_ERROR(ReadFinalValues(folder + "/final.safetensors",
                                     numbers.at("final_weights"), &reference));
  for (const auto& [name, norm] :
       numbers.at("step1_param_grad_norms").items()) {
    reference.parameters.at(name).first_gradient_norm = norm;
  }
  return reference;
}

absl::StatusOr<worker::TokenBatch> ReferenceData::Read(
    StepIndex step, MicrobatchIndex microbatch) {
  const auto& rows = reference_.tokens.at(static_cast<size_t>(step.value()))
                         .at(microbatch.index());
  worker::TokenBatch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  batch.sequence_length = reference_.spec.data.sequence_length;
  for (const std::vector<int64_t>& row : rows) {
    batch.inputs.insert(batch.inputs.end(), row.begin(), row.end() - 1);
    batch.targets.insert(batch.targets.end(), row.begin() + 1, row.end());
  }
  return batch;
}

int64_t ReferenceData::samples() const {
  const job::TrainingSpec& training = reference_.spec.training;
  return training.steps * training.microbatches * training.microbatch_size;
}

}  // namespace stagecoach::parity
