#ifndef STAGECOACH_STAGE_WORKER_CHECKPOINT_MANIFEST_H_
#define STAGECOACH_STAGE_WORKER_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "job/job_spec.h"
#include "job/loss_scale.h"

namespace stagecoach::checkpoint {

inline constexpr char kManifestFile[] = "MANIFEST.json";

struct ManifestFile {
  std::string name;  // within the checkpoint's folder
  int64_t bytes = 0;
  std::string sha256;
};

// What a checkpoint consists of and where its job stands. Written last: a
// folder without it is no checkpoint. Plain data.
struct Manifest {
  std::string job_id;
  int64_t step = 0;     // updates applied; the next step's number
  int64_t samples = 0;  // of the data, that went into them
  // Of the next step, where training.precision is "float16".
  std::optional<job::LossScaleState> loss_scale;
  // Every key of the job's spec, as TOML text: seeds, sizes, optimizer.
  std::map<std::string, std::string> spec;
  std::vector<ManifestFile> files;  // by name

  int64_t bytes() const;  // of all files
};

// A manifest of the job after `step` steps, without files.
Manifest NewManifest(const std::string& job_id, const job::JobSpec& spec,
                     int64_t step);

std::string ManifestToJson(const Manifest& manifest);
// kInvalidArgument if it is not one, kUnimplemented if a later version wrote
// it.
absl::StatusOr<Manifest> ManifestFromJson(absl::string_view text);

// Whether a job of this spec may go on from there with the results that an
// undisturbed run would have: same model, seed, data order and optimizer. Where
// stages lie, paths, learning rates and the number of steps may differ.
// kFailedPrecondition names the key and both values.
absl::Status CheckContinues(const Manifest& manifest, const job::JobSpec& spec);

}  // namespace stagecoach::checkpoint

#endif  // STAGECOACH_STAGE_WORKER_CHECKPOINT_MANIFEST_H_
