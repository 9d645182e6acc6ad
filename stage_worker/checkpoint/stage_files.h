#ifndef STAGECOACH_STAGE_WORKER_CHECKPOINT_STAGE_FILES_H_
#define STAGECOACH_STAGE_WORKER_CHECKPOINT_STAGE_FILES_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stage_worker/checkpoint/manifest.h"
#include "stage_worker/checkpoint/safetensors.h"
#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::checkpoint {

// Writes the files of one worker's stages into `folder`, which is made if it is
// not there: weights of each stage, and its optimizer's state if it has one.
// `stages` is the whole model's number. Their bytes are on the disk when this
// returns. kCancelled soon after `*cancelled` was set. Blocks; on an error some
// files may be there.
absl::StatusOr<std::vector<ManifestFile>> WriteStages(
    const std::string& folder, const std::vector<worker::StageState>& states,
    int stages, const std::atomic<bool>& cancelled);

// The training state in a checkpoint, whatever P, V and split wrote it: an
// engine asks by name. Immutable, thread-safe; must outlive its readers.
class SavedState {
 public:
  // kDataLoss or kNotFound for a checkpoint whose manifest or sizes are wrong.
  // Contents are not hashed: VerifyCheckpoint does that.
  static absl::StatusOr<std::unique_ptr<SavedState>> Open(
      const std::string& path);

  // Errors name tensor and file.
  worker::StateReader parameters() const;
  worker::StateReader optimizer() const;

 private:
  SavedState(std::unique_ptr<SafetensorsFolder> weights,
             std::unique_ptr<SafetensorsFolder> optimizer);

  const std::unique_ptr<SafetensorsFolder> weights_;
  const std::unique_ptr<SafetensorsFolder> optimizer_;
};

// Loads all parameters and optimizer state of an engine.
absl::Status LoadState(const std::string& path, worker::StageEngine* engine);

}  // namespace stagecoach::checkpoint

#endif  // STAGECOACH_STAGE_WORKER_CHECKPOINT_STAGE_FILES_H_
