// Checkpoints of a running placement: every worker writes its stages' files,
// then one of them completes the checkpoint.
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/job_run.h"
#include "job/loss_scale_proto.h"

namespace stagecoach::coordinator {
namespace {

// The worker that completes checkpoints.
constexpr int kSealer = 0;

}  // namespace

bool JobRun::CheckpointDue() const {
  const job::CheckpointSpec& checkpoint = planned_->spec.checkpoint;
  if (checkpoint.directory.empty()) return false;
  const bool requested =
      requested_checkpoint_step_ > 0 && step_ >= requested_checkpoint_step_;
  return requested || step_ % checkpoint.every_steps == 0 ||
         step_ == planned_->spec.training.steps;
}

// A checkpoint is written behind the step that follows it. That step may be
// computed meanwhile, but its outcome waits until the checkpoint is complete:
// so a failure costs every_steps steps at most, and a checkpoint costs the time
// by which writing it takes longer than a step. One that fails is not waited
// for: the bound holds again from the next one on.
//
// With copies in the neighbours' memory a failure costs one step at most, since
// step s is committed only when all have a copy of what it began with.
bool JobRun::CommitMustWait() const {
  if (planned_->spec.recovery.neighbour_copy && !AllCopied()) return true;
  return checkpoint_.has_value() &&
         step_ >= secured_step_ + planned_->spec.checkpoint.every_steps;
}

absl::StatusOr<int64_t> JobRun::RequestCheckpoint() {
  if (planned_->spec.checkpoint.directory.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        job_id_,
        " has no checkpoint.directory; only a job whose spec names "
        "one can be stored"));
  }
  const int64_t steps = planned_->spec.training.steps;
  if (phase_ != Phase::kStepping || (step_ == steps && !step_held_)) {
    return absl::FailedPreconditionError(
        absl::StrCat(job_id_, " is not between its first and its last step"));
  }
  // A step that waits for an earlier checkpoint is at its boundary already.
  if (step_held_) return step_;
  requested_checkpoint_step_ = step_ + 1;
  return requested_checkpoint_step_;
}

void JobRun::StartCheckpoint(Output* output) {
  if (step_ >= requested_checkpoint_step_) requested_checkpoint_step_ = 0;
  checkpoint_.emplace();
  checkpoint_->step = step_;
  Broadcast(WriteMessage(), output);
}

v1::CoordinatorMessage JobRun::WriteMessage() const {
  v1::CoordinatorMessage message;
  message.mutable_write_checkpoint()->set_job_id(job_id_);
  message.mutable_write_checkpoint()->set_step(checkpoint_->step);
  // Whoever has not been told of a checkpoint has not begun the step behind it,
  // so that the scale is still that step's.
  if (const auto scale = loss_scale_.state(); scale.has_value()) {
    *message.mutable_write_checkpoint()->mutable_loss_scale() =
        job::ToProto(*scale);
  }
  return message;
}

absl::Status JobRun::OnCheckpointWritten(int worker,
                                         const v1::CheckpointWritten& written,
                                         Output* output) {
  if (!checkpoint_.has_value() || checkpoint_->step != written.step()) {
    return absl::OkStatus();
  }
  if (checkpoint_->written.count(worker) > 0) {
    return absl::InternalError(
        absl::StrCat("wrote the checkpoint of step ", written.step(),
                     " twice; are all workers of one build?"));
  }
  NoteWritten(worker, written);
  if (checkpoint_->written.size() == members_.size()) Seal(output);
  return absl::OkStatus();
}

void JobRun::NoteWritten(int worker, const v1::CheckpointWritten& written) {
  checkpoint_->written.insert(worker);
  checkpoint_->files.insert(checkpoint_->files.end(), written.files().begin(),
                            written.files().end());
  if (!written.error().empty() && checkpoint_->error.empty()) {
    checkpoint_->error =
        absl::StrCat("worker ", members_[static_cast<size_t>(worker)].name,
                     ": ", written.error());
    checkpoint_->culprit = worker;
  }
}

void JobRun::Seal(Output* output) {
  v1::CoordinatorMessage message;
  v1::SealCheckpoint* seal = message.mutable_seal_checkpoint();
  seal->set_job_id(job_id_);
  seal->set_step(checkpoint_->step);
  seal->set_discard(!checkpoint_->error.empty());
  if (checkpoint_->error.empty()) {
    seal->mutable_files()->Assign(checkpoint_->files.begin(),
                                  checkpoint_->files.end());
  }
  output->messages.emplace_back(kSealer, std::move(message));
}

void JobRun::CatchUpCheckpoint(int worker, const v1::Resumed& resumed) {
  if (!checkpoint_.has_value()) return;
  const int64_t step = checkpoint_->step;
  if (resumed.has_checkpoint_written() &&
      resumed.checkpoint_written().step() == step &&
      checkpoint_->written.count(worker) == 0) {
    NoteWritten(worker, resumed.checkpoint_written());
  }
  if (worker == kSealer && resumed.has_checkpoint_sealed() &&
      resumed.checkpoint_sealed().step() == step) {
    checkpoint_->sealed = resumed.checkpoint_sealed();
  }
}

// The sealer does nothing the second time.
absl::Status JobRun::SealAgain(absl::Time now, Output* output) {
  if (!checkpoint_.has_value() ||
      checkpoint_->written.size() < members_.size()) {
    return absl::OkStatus();
  }
  if (!checkpoint_->sealed.has_value()) {
    Seal(output);
    return absl::OkStatus();
  }
  // A copy: it ends with the checkpoint.
  const v1::CheckpointSealed sealed = *checkpoint_->sealed;
  return OnCheckpointSealed(sealed, now, output);
}

absl::Status JobRun::OnCheckpointSealed(const v1::CheckpointSealed& sealed,
                                        absl::Time now, Output* output) {
  if (!checkpoint_.has_value() || checkpoint_->step != sealed.step() ||
      checkpoint_->written.size() < members_.size()) {
    return absl::OkStatus();
  }
  PendingCheckpoint checkpoint = *std::move(checkpoint_);
  checkpoint_.reset();
  secured_step_ = checkpoint.step;
  if (checkpoint.error.empty() && !sealed.error().empty()) {
    checkpoint.error =
        absl::StrCat("worker ", members_[kSealer].name, ": ", sealed.error());
    checkpoint.culprit = kSealer;
  }
  if (checkpoint.error.empty()) {
    output->events.push_back(
        CheckpointStored{job_id_, checkpoint.step, sealed.path()});
  } else {
    output->events.push_back(
        CheckpointFailed{job_id_, checkpoint.step, checkpoint.error});
    // What was trained would be lost without a word.
    if (checkpoint.step == planned_->spec.training.steps) {
      output->culprit = checkpoint.culprit;
      return absl::ResourceExhaustedError(absl::StrCat(
          "the last checkpoint could not be written: ", checkpoint.error));
    }
  }
  if (!step_held_) return absl::OkStatus();
  step_held_ = false;
  StartCheckpoint(output);
  BeginStep(now, output);
  return absl::OkStatus();
}

}  // namespace stagecoach::coordinator
