#ifndef STAGECOACH_STAGE_WORKER_CHECKPOINT_FOLDERS_H_
#define STAGECOACH_STAGE_WORKER_CHECKPOINT_FOLDERS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stage_worker/checkpoint/manifest.h"

// A directory of checkpoints:
//
//   step-00000025/                     a checkpoint
//     MANIFEST.json                    written last
//     config.json                      of the model, as Hugging Face has it
//     model.safetensors.index.json     which tensor is in which file
//     model-00001-of-00004.safetensors       weights of stage 0, float32
//     optimizer-00001-of-00004.safetensors   its optimizer's state
//     ...
//   step-00000050.partial-job-1-7/     being written, or left over
//
// Everything here blocks and may be called from any thread; two at a time may
// read, but only one may write to a directory.
namespace stagecoach::checkpoint {

// "step-00000025"
std::string FolderName(int64_t step);
// -1 unless it is the name of a checkpoint's folder.
int64_t StepOfFolder(const std::string& name);
// "step-00000025.partial-job-1-7": where epoch 7 of job-1 prepares it.
std::string PartialFolderName(int64_t step, const std::string& job_id,
                              int64_t epoch);

struct FoundCheckpoint {
  std::string path;
  int64_t step = 0;
  // Or why it is damaged; of its files only names and sizes are looked at.
  absl::StatusOr<Manifest> manifest = absl::UnknownError("");
};

// Newest first. Empty for a directory that is not there.
absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(
    const std::string& directory);

// The manifest, once names and sizes of all files agree with it. Errors as
// VerifyCheckpoint's.
absl::StatusOr<Manifest> ReadCheckpoint(const std::string& path);

// Reads and hashes every file. kDataLoss names the file that is missing or not
// as it was written; kNotFound: no manifest, so no checkpoint.
absl::StatusOr<Manifest> VerifyCheckpoint(const std::string& path);

struct ChosenCheckpoint {
  std::string path;
  Manifest manifest;
};
struct Choice {
  std::optional<ChosenCheckpoint> checkpoint;  // none: there is none at all
  std::vector<std::string> warnings;  // of each newer one that is damaged
};

// The newest checkpoint that VerifyCheckpoint accepts, of those with at most
// `newest_step` updates. kDataLoss: there are some, and all are damaged.
absl::StatusOr<Choice> ChooseCheckpoint(
    const std::string& directory,
    int64_t newest_step = std::numeric_limits<int64_t>::max());

// The last part of writing a checkpoint, once all files of the stages are on
// the disk in the partial folder: adds config and index, writes the manifest,
// makes all durable and gives the folder its name. An older checkpoint of this
// step is replaced. Then removes all but the newest `keep` checkpoints (0:
// none) and what earlier attempts left. Returns the checkpoint's path; if it
// fails the directory holds what it held.
absl::StatusOr<std::string> SealCheckpoint(const std::string& directory,
                                           const std::string& partial,
                                           const job::JobSpec& spec,
                                           Manifest manifest, int64_t keep);

// Removes what was written of a checkpoint that will not be. Best effort.
void DiscardPartial(const std::string& directory, const std::string& partial);

}  // namespace stagecoach::checkpoint

#endif  // STAGECOACH_STAGE_WORKER_CHECKPOINT_FOLDERS_H_
