#ifndef STAGECOACH_STAGE_WORKER_CHECKPOINT_SAFETENSORS_WRITER_H_
#define STAGECOACH_STAGE_WORKER_CHECKPOINT_SAFETENSORS_WRITER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor_descriptor.h"
#include "stage_worker/checkpoint/durable_file.h"

namespace stagecoach::checkpoint {

struct TensorToWrite {
  std::string name;
  TensorDescriptor descriptor;
  const void* data = nullptr;  // descriptor.bytes() of them
};

// Writes a safetensors file, byte for byte the one that Hugging Face's own
// library writes: wide element types first, then by name, the header padded to
// 8 bytes, so that every tensor is aligned. The same tensors give the same
// file, in whatever order they come. The file's bytes are on the disk when this
// returns. kInvalidArgument: a name twice, empty or reserved. Blocks.
absl::StatusOr<FileDigest> WriteSafetensors(
    const std::string& path, std::vector<TensorToWrite> tensors,
    const std::map<std::string, std::string>& metadata);

}  // namespace stagecoach::checkpoint

#endif  // STAGECOACH_STAGE_WORKER_CHECKPOINT_SAFETENSORS_WRITER_H_
