#ifndef STAGECOACH_STAGE_WORKER_CHECKPOINT_WRITER_H_
#define STAGECOACH_STAGE_WORKER_CHECKPOINT_WRITER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/serial_executor.h"
#include "job/job_spec.h"
#include "job/loss_scale.h"
#include "stage_worker/checkpoint/manifest.h"
#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::worker {

// Writes the checkpoints of one placement behind its steps. Methods return at
// once and may be called from any thread; the work, and then `done`, runs on
// `files`, in the order of the calls. Owned by shared_ptr: work under way keeps
// it alive.
class CheckpointWriter : public std::enable_shared_from_this<CheckpointWriter> {
 public:
  struct Options {
    std::string job_id;
    Epoch epoch;
    job::JobSpec spec;
    int stages = 0;             // of the whole model
    Executor* files = nullptr;  // may block; must outlive the writer
  };
  using Files = absl::StatusOr<std::vector<checkpoint::ManifestFile>>;
  using Path = absl::StatusOr<std::string>;

  explicit CheckpointWriter(const Options& options) : options_(options) {}

  // Writes the files of this worker's stages; lets go of the copy as soon as
  // they are on the disk.
  void Write(int64_t step, std::vector<StageState> states,
             std::function<void(Files)> done);
  // Completes the checkpoint whose files, of all workers, are on the disk.
  void Seal(int64_t step, std::vector<checkpoint::ManifestFile> files,
            std::optional<job::LossScaleState> loss_scale,
            std::function<void(Path)> done);
  // Removes what there is of a checkpoint that will not be.
  void Discard(int64_t step, std::function<void()> done);
  // The placement ends: what has not begun will not be done, and what has ends
  // soon, with kCancelled.
  void Cancel() { cancelled_ = true; }

 private:
  std::string PartialName(int64_t step) const;

  const Options options_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_CHECKPOINT_WRITER_H_
