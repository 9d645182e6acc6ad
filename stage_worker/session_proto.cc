#include "stage_worker/session_proto.h"

#include "schedule/formats/formats.h"

namespace stagecoach::worker {

void ToProto(const Position& position, v1::Position* proto) {
  proto->set_step(position.step.value());
  proto->set_action(schedule::ToString(position.action));
  proto->set_stage(position.action.stage.value());
  proto->set_microbatch(position.action.microbatch.value());
  proto->set_waiting_for(position.waiting_for);
}

void ToProto(const std::vector<MicrobatchLoss>& losses,
             google::protobuf::RepeatedPtrField<v1::MicrobatchLoss>* proto) {
  for (const MicrobatchLoss& loss : losses) {
    v1::MicrobatchLoss* entry = proto->Add();
    entry->set_microbatch(loss.microbatch.value());
    entry->set_loss_sum(loss.loss_sum);
  }
}

void ToProto(const Placement::StepOutcome& outcome, v1::Prepared* proto) {
  ToProto(outcome.gradients.losses, proto->mutable_losses());
  for (const ParameterNorm& norm : outcome.gradients.norms) {
    v1::ParameterNorm* entry = proto->add_norms();
    entry->set_global_index(norm.global_index);
    entry->set_squared(norm.squared);
  }
  proto->set_all_finite(outcome.gradients.all_finite);
  proto->set_compute_start_nanoseconds(
      outcome.timing.compute_start_nanoseconds);
  proto->set_compute_end_nanoseconds(outcome.timing.compute_end_nanoseconds);
  proto->set_busy_nanoseconds(outcome.timing.busy_nanoseconds);
}

void ToProto(const ParameterDigest& digest, v1::ParameterDigest* proto) {
  proto->set_name(digest.name);
  proto->set_dtype(DTypeName(digest.descriptor.dtype));
  for (int64_t size : digest.descriptor.shape) proto->add_shape(size);
  proto->set_sha256(digest.sha256);
}

}  // namespace stagecoach::worker
