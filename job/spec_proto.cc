#include "job/spec_proto.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "job/hf_config.h"
#include "job/words.h"

namespace stagecoach::job {
namespace {

template <typename E>
std::string TextOf(E value) {
  return std::string(WordOf(value));
}

template <typename E>
absl::Status ReadWord(absl::string_view key, const std::string& text,
                      E* value) {
  if (FromWord(text, value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": \"", text, "\" is not one of \"",
                   absl::StrJoin(WordTexts<E>(), "\", \""),
                   "\"; are client and coordinator of one version?"));
}

void ToProto(const ModelSpec& spec, v1::ModelSpec* proto) {
  proto->set_architecture(TextOf(spec.architecture));
  proto->set_checkpoint(spec.checkpoint);
  proto->set_layers(spec.layers);
  proto->set_hidden(spec.hidden);
  proto->set_heads(spec.heads);
  proto->set_vocabulary(spec.vocabulary);
  proto->set_tie_embeddings(spec.tie_embeddings);
  proto->set_config_json(spec.config_json);
  proto->set_path(spec.path);
  proto->set_options(spec.options);
  for (const int64_t size : spec.boundary) proto->add_boundary(size);
  for (const std::string& row : spec.boundaries) proto->add_boundaries(row);
  if (spec.dropout != ModelSpec().dropout) proto->set_dropout(spec.dropout);
}

absl::Status FromProto(const v1::ModelSpec& proto, ModelSpec* spec) {
  spec->checkpoint = proto.checkpoint();
  spec->layers = proto.layers();
  spec->hidden = proto.hidden();
  spec->heads = proto.heads();
  spec->vocabulary = proto.vocabulary();
  spec->tie_embeddings = proto.tie_embeddings();
  SC_RETURN_IF_ERROR(ReadWord("model.architecture", proto.architecture(),
                              &spec->architecture));
  const double dropout =
      proto.has_dropout() ? proto.dropout() : ModelSpec().dropout;
  spec->dropout = dropout;
  spec->path = proto.path();
  spec->options = proto.options();
  spec->boundary.assign(proto.boundary().begin(), proto.boundary().end());
  spec->boundaries.assign(proto.boundaries().begin(), proto.boundaries().end());
  if (proto.config_json().empty()) return absl::OkStatus();
  const std::string folder = std::move(spec->checkpoint);
  SC_ASSIGN_OR_RETURN(
      *spec,
      ParseHfConfig(proto.config_json(), absl::StrCat(folder, "/config.json")));
  spec->checkpoint = folder;
  spec->dropout = dropout;
  return absl::OkStatus();
}

void ToProto(const DataSpec& spec, v1::DataSpec* proto) {
  proto->set_kind(TextOf(spec.kind));
  proto->set_path(spec.path);
  proto->set_token_type(spec.token_type);
  proto->set_sequence_length(spec.sequence_length);
  proto->set_stride(spec.stride);
  proto->set_order(TextOf(spec.order));
  proto->set_documents(spec.documents);
  proto->set_document_end(spec.document_end);
  proto->set_targets(spec.targets);
}

absl::Status FromProto(const v1::DataSpec& proto, DataSpec* spec) {
  spec->path = proto.path();
  spec->token_type = proto.token_type();
  spec->sequence_length = proto.sequence_length();
  spec->stride = proto.stride();
  // Empty: of a journal or a client that did not know the keys.
  if (!proto.documents().empty()) {
    spec->documents = proto.documents();
    spec->document_end = proto.document_end();
  }
  if (!proto.targets().empty()) spec->targets = proto.targets();
  SC_RETURN_IF_ERROR(ReadWord("data.kind", proto.kind(), &spec->kind));
  return ReadWord("data.order", proto.order(), &spec->order);
}

void ToProto(const TrainingSpec& spec, v1::TrainingSpec* proto) {
  proto->set_steps(spec.steps);
  proto->set_microbatches(spec.microbatches);
  proto->set_microbatch_size(spec.microbatch_size);
  proto->set_last_microbatch_size(spec.last_microbatch_size);
  proto->set_optimizer(TextOf(spec.optimizer));
  proto->set_beta1(spec.betas[0]);
  proto->set_beta2(spec.betas[1]);
  proto->set_epsilon(spec.epsilon);
  proto->set_weight_decay(spec.weight_decay);
  proto->set_learning_rate(spec.learning_rate);
  proto->set_minimum_learning_rate(spec.minimum_learning_rate);
  proto->set_learning_rate_schedule(TextOf(spec.learning_rate_schedule));
  proto->set_warmup_steps(spec.warmup_steps);
  proto->set_gradient_clip(spec.gradient_clip);
  proto->set_precision(TextOf(spec.precision));
  proto->set_initial_loss_scale(spec.initial_loss_scale);
  proto->set_loss_scale_growth_steps(spec.loss_scale_growth_steps);
  for (const std::string& prefix : spec.freeze) proto->add_freeze(prefix);
  proto->set_kernels(TextOf(spec.kernels));
  proto->set_threads(spec.threads);
  proto->set_loss_chunk(spec.loss_chunk);
}

absl::Status FromProto(const v1::TrainingSpec& proto, TrainingSpec* spec) {
  spec->steps = proto.steps();
  spec->microbatches = proto.microbatches();
  spec->microbatch_size = proto.microbatch_size();
  spec->last_microbatch_size = proto.last_microbatch_size();
  spec->betas = {proto.beta1(), proto.beta2()};
  spec->epsilon = proto.epsilon();
  spec->weight_decay = proto.weight_decay();
  spec->learning_rate = proto.learning_rate();
  spec->minimum_learning_rate = proto.minimum_learning_rate();
  spec->warmup_steps = proto.warmup_steps();
  spec->gradient_clip = proto.gradient_clip();
  if (proto.initial_loss_scale() != 0) {
    spec->initial_loss_scale = proto.initial_loss_scale();
  }
  if (proto.loss_scale_growth_steps() != 0) {
    spec->loss_scale_growth_steps = proto.loss_scale_growth_steps();
  }
  spec->freeze.assign(proto.freeze().begin(), proto.freeze().end());
  spec->threads = proto.threads();
  spec->loss_chunk = proto.loss_chunk();
  SC_RETURN_IF_ERROR(
      ReadWord("training.optimizer", proto.optimizer(), &spec->optimizer));
  SC_RETURN_IF_ERROR(ReadWord("training.learning_rate_schedule",
                              proto.learning_rate_schedule(),
                              &spec->learning_rate_schedule));
  SC_RETURN_IF_ERROR(
      ReadWord("training.precision", proto.precision(), &spec->precision));
  return ReadWord("training.kernels", proto.kernels(), &spec->kernels);
}

void ToProto(const PipelineSpec& spec, v1::PipelineSpec* proto) {
  proto->set_workers(spec.workers);
  proto->set_stages_per_worker(spec.stages_per_worker);
  proto->set_schedule(spec.schedule);
  for (const int64_t layers : spec.split) proto->add_split(layers);
  proto->set_release(TextOf(spec.release));
  proto->set_send_budget(spec.send_budget);
  proto->set_transport(TextOf(spec.transport));
}

absl::Status FromProto(const v1::PipelineSpec& proto, PipelineSpec* spec) {
  spec->workers = proto.workers();
  spec->stages_per_worker = proto.stages_per_worker();
  spec->schedule = proto.schedule();
  spec->split.assign(proto.split().begin(), proto.split().end());
  spec->send_budget = proto.send_budget();
  SC_RETURN_IF_ERROR(
      ReadWord("pipeline.release", proto.release(), &spec->release));
  return ReadWord("pipeline.transport", proto.transport(), &spec->transport);
}

}  // namespace

void ToProto(const JobSpec& spec, v1::JobSpec* proto) {
  proto->Clear();
  proto->set_name(spec.name);
  proto->set_seed(spec.seed);
  ToProto(spec.model, proto->mutable_model());
  ToProto(spec.data, proto->mutable_data());
  ToProto(spec.training, proto->mutable_training());
  ToProto(spec.pipeline, proto->mutable_pipeline());
  proto->mutable_memory()->set_limit_bytes(spec.memory.limit_bytes);
  proto->mutable_memory()->set_recompute(spec.memory.recompute);
  proto->mutable_memory()->set_optimizer(TextOf(spec.memory.optimizer));
  v1::RecoverySpec* recovery = proto->mutable_recovery();
  recovery->set_max_failures(spec.recovery.max_failures);
  recovery->set_no_progress(spec.recovery.no_progress);
  recovery->set_neighbour_copy(spec.recovery.neighbour_copy);
  v1::CheckpointSpec* checkpoint = proto->mutable_checkpoint();
  checkpoint->set_directory(spec.checkpoint.directory);
  checkpoint->set_every_steps(spec.checkpoint.every_steps);
  checkpoint->set_keep(spec.checkpoint.keep);
  v1::EvaluationSpec* evaluation = proto->mutable_evaluation();
  evaluation->set_path(spec.evaluation.path);
  evaluation->set_every_steps(spec.evaluation.every_steps);
  evaluation->set_microbatches(spec.evaluation.microbatches);
}

absl::StatusOr<JobSpec> FromProto(const v1::JobSpec& proto) {
  JobSpec spec;
  spec.name = proto.name();
  spec.seed = proto.seed();
  SC_RETURN_IF_ERROR(FromProto(proto.model(), &spec.model));
  SC_RETURN_IF_ERROR(FromProto(proto.data(), &spec.data));
  SC_RETURN_IF_ERROR(FromProto(proto.training(), &spec.training));
  SC_RETURN_IF_ERROR(FromProto(proto.pipeline(), &spec.pipeline));
  spec.memory.limit_bytes = proto.memory().limit_bytes();
  // Empty: of a journal or a client that did not know the key.
  if (!proto.memory().recompute().empty()) {
    spec.memory.recompute = proto.memory().recompute();
  }
  if (!proto.memory().optimizer().empty()) {
    SC_RETURN_IF_ERROR(ReadWord("memory.optimizer", proto.memory().optimizer(),
                                &spec.memory.optimizer));
  }
  spec.recovery.max_failures = proto.recovery().max_failures();
  // Likewise 0.
  if (proto.recovery().no_progress() != 0) {
    spec.recovery.no_progress = proto.recovery().no_progress();
  }
  spec.recovery.neighbour_copy = proto.recovery().neighbour_copy();
  spec.checkpoint.directory = proto.checkpoint().directory();
  spec.checkpoint.every_steps = proto.checkpoint().every_steps();
  spec.checkpoint.keep = proto.checkpoint().keep();
  spec.evaluation.path = proto.evaluation().path();
  spec.evaluation.every_steps = proto.evaluation().every_steps();
  spec.evaluation.microbatches = proto.evaluation().microbatches();
  return spec;
}

}  // namespace stagecoach::job
