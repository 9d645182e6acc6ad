#include "stage_worker/checkpoint_writer.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "stage_worker/checkpoint/folders.h"
#include "stage_worker/checkpoint/stage_files.h"

namespace stagecoach::worker {

std::string CheckpointWriter::PartialName(int64_t step) const {
  return checkpoint::PartialFolderName(step, options_.job_id,
                                       options_.epoch.value());
}

void CheckpointWriter::Write(int64_t step, std::vector<StageState> states,
                             std::function<void(Files)> done) {
  auto self = shared_from_this();
  options_.files->Add([self, step, states = std::move(states),
                       done = std::move(done)]() mutable {
    const job::JobSpec& spec = self->options_.spec;
    Files files = checkpoint::WriteStages(
        absl::StrCat(spec.checkpoint.directory, "/", self->PartialName(step)),
        states, self->options_.stages, self->cancelled_);
    states.clear();
    done(std::move(files));
  });
}

void CheckpointWriter::Seal(int64_t step,
                            std::vector<checkpoint::ManifestFile> files,
                            std::optional<job::LossScaleState> loss_scale,
                            std::function<void(Path)> done) {
  auto self = shared_from_this();
  options_.files->Add([self, step, files = std::move(files), loss_scale,
                       done = std::move(done)]() mutable {
    if (self->cancelled_) {
      checkpoint::DiscardPartial(self->options_.spec.checkpoint.directory,
                                 self->PartialName(step));
      return done(absl::CancelledError("the job let go"));
    }
    const job::JobSpec& spec = self->options_.spec;
    checkpoint::Manifest manifest =
        checkpoint::NewManifest(self->options_.job_id, spec, step);
    manifest.files = std::move(files);
    manifest.loss_scale = loss_scale;
    Path path = checkpoint::SealCheckpoint(
        spec.checkpoint.directory, self->PartialName(step), spec,
        std::move(manifest), spec.checkpoint.keep);
    if (!path.ok()) {
      checkpoint::DiscardPartial(spec.checkpoint.directory,
                                 self->PartialName(step));
    }
    done(std::move(path));
  });
}

void CheckpointWriter::Discard(int64_t step, std::function<void()> done) {
  auto self = shared_from_this();
  options_.files->Add([self, step, done = std::move(done)] {
    checkpoint::DiscardPartial(self->options_.spec.checkpoint.directory,
                               self->PartialName(step));
    done();
  });
}

}  // namespace stagecoach::worker
