#ifndef STAGECOACH_STAGE_WORKER_CHECKPOINT_EXPORT_H_
#define STAGECOACH_STAGE_WORKER_CHECKPOINT_EXPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stage_worker/checkpoint/manifest.h"

namespace stagecoach::checkpoint {

struct ExportOptions {
  // Larger weights are cut into files of at most so many bytes of tensors (or
  // one tensor), as Hugging Face does.
  int64_t shard_bytes = 5'000'000'000;
};

struct Exported {
  Manifest manifest;  // of the checkpoint
  std::vector<std::string> files;
  int64_t tensors = 0;
  int64_t bytes = 0;  // of the tensors
};

// Writes a checkpoint's model as a plain Hugging Face folder that
// `transformers` loads: config.json and model.safetensors, or its shards and
// their index. The weights are the checkpoint's, bit for bit. A tokenizer's
// files come along from the folder that the job's model.checkpoint named, if
// they are still there. The checkpoint is verified first.
//
// `folder` must not exist or be empty (kAlreadyExists); it appears whole or not
// at all. Other errors are VerifyCheckpoint's and the system's. Blocks.
absl::StatusOr<Exported> ExportCheckpoint(const std::string& path,
                                          const std::string& folder,
                                          const ExportOptions& options);

}  // namespace stagecoach::checkpoint

#endif  // STAGECOACH_STAGE_WORKER_CHECKPOINT_EXPORT_H_
