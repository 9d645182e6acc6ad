// Checkpoints, as a session is told to make them.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "job/loss_scale_proto.h"
#include "stage_worker/session.h"

namespace stagecoach::worker {
namespace {

void ToProto(const checkpoint::ManifestFile& file, v1::CheckpointFile* proto) {
  proto->set_name(file.name);
  proto->set_bytes(file.bytes);
  proto->set_sha256(file.sha256);
}

checkpoint::ManifestFile FromProto(const v1::CheckpointFile& proto) {
  return {proto.name(), proto.bytes(), proto.sha256()};
}

}  // namespace

// Also while its edges are opened for another schedule.
bool Session::HoldsLivePlacement() const {
  return held_.placement != nullptr && state_ != SessionState::kIdle &&
         state_ != SessionState::kFinishing &&
         state_ != SessionState::kFailed && state_ != SessionState::kReleasing;
}

// The copy is made between the update and the next step, which are queued to
// the engine in this order; the files are written while the engine goes on.
void Session::OnWriteCheckpoint(const v1::WriteCheckpoint& write) {
  if (!Expect(SessionState::kReady, "WriteCheckpoint")) return;
  held_.answers.set_checkpoint_step(write.step());
  held_.checkpoint_loss_scale.reset();
  if (write.has_loss_scale()) {
    held_.checkpoint_loss_scale = job::FromProto(write.loss_scale());
  }
  held_.answers.clear_checkpoint_written();
  held_.answers.clear_checkpoint_sealed();
  using States = absl::StatusOr<std::vector<StageState>>;
  OnEngine<States>(
      [](Placement& placement) { return placement.ExportState(); },
      [this, epoch = held_.epoch, step = write.step()](States states) {
        if (!IsCurrent(epoch) || !HoldsLivePlacement()) return;
        if (!states.ok()) return SendWritten(epoch, step, states.status());
        auto self = shared_from_this();
        held_.checkpoints->Write(
            step, *std::move(states),
            [self, epoch, step](CheckpointWriter::Files files) {
              self->options_.executor->Add(
                  [self, epoch, step, files = std::move(files)] {
                    self->SendWritten(epoch, step, files);
                  });
            });
      });
}

void Session::SendWritten(Epoch epoch, int64_t step,
                          const CheckpointWriter::Files& files) {
  if (!IsCurrent(epoch) || !HoldsLivePlacement()) return;
  SC_FAILPOINT("worker.checkpoint.written");
  v1::WorkerMessage message;
  v1::CheckpointWritten* written = message.mutable_checkpoint_written();
  written->set_job_id(held_.job_id);
  written->set_step(step);
  if (files.ok()) {
    for (const checkpoint::ManifestFile& file : *files) {
      ToProto(file, written->add_files());
    }
  } else {
    LogWarning(absl::StrCat("checkpoint of step ", step, ": ",
                            files.status().message()));
    written->set_error(std::string(files.status().message()));
  }
  *held_.answers.mutable_checkpoint_written() = *written;
  Send(std::move(message));
}

void Session::OnSealCheckpoint(const v1::SealCheckpoint& seal) {
  if (!HoldsLivePlacement()) {
    LogWarning(absl::StrCat("SealCheckpoint ignored in state ",
                            SessionStateName(state_)));
    return;
  }
  // Told again by a coordinator that cannot know that it was heard.
  if (held_.sealing_step == seal.step()) return;
  held_.sealing_step = seal.step();
  auto self = shared_from_this();
  const auto answer = [self, epoch = held_.epoch,
                       step = seal.step()](CheckpointWriter::Path path) {
    self->options_.executor->Add([self, epoch, step, path = std::move(path)] {
      self->SendSealed(epoch, step, path);
    });
  };
  if (seal.discard()) {
    held_.checkpoints->Discard(seal.step(), [answer] { answer(""); });
    return;
  }
  std::vector<checkpoint::ManifestFile> files;
  for (const v1::CheckpointFile& file : seal.files()) {
    files.push_back(FromProto(file));
  }
  held_.checkpoints->Seal(seal.step(), std::move(files),
                          held_.checkpoint_loss_scale, answer);
}

// No worker's files may go while the sealer, the first worker, completes the
// checkpoint. It is told to when all have written, and not any more once it has
// been told to let go. So it removes what there is unless it was told; and who
// has not written yet removes what it writes after that.
void Session::DiscardCheckpoint() {
  const v1::Resumed& answers = held_.answers;
  const int64_t step = answers.checkpoint_step();
  if (held_.checkpoints == nullptr || held_.placement == nullptr || step == 0) {
    return;
  }
  const bool seals = held_.placement->options().worker == WorkerIndex(0);
  const bool told = held_.sealing_step == step;
  if (seals ? !told : !answers.has_checkpoint_written()) {
    held_.checkpoints->Discard(step, [] {});
  }
}

void Session::SendSealed(Epoch epoch, int64_t step,
                         const CheckpointWriter::Path& path) {
  if (!IsCurrent(epoch) || !HoldsLivePlacement()) return;
  SC_FAILPOINT("worker.checkpoint.sealed");
  v1::WorkerMessage message;
  v1::CheckpointSealed* sealed = message.mutable_checkpoint_sealed();
  sealed->set_job_id(held_.job_id);
  sealed->set_step(step);
  if (path.ok()) {
    sealed->set_path(*path);
  } else {
    LogWarning(absl::StrCat("checkpoint of step ", step, ": ",
                            path.status().message()));
    sealed->set_error(std::string(path.status().message()));
  }
  *held_.answers.mutable_checkpoint_sealed() = *sealed;
  Send(std::move(message));
}

}  // namespace stagecoach::worker
