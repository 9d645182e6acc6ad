#ifndef STAGECOACH_STAGE_WORKER_CHECKPOINT_INDEX_H_
#define STAGECOACH_STAGE_WORKER_CHECKPOINT_INDEX_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach::checkpoint {

inline constexpr char kIndexFile[] = "model.safetensors.index.json";

// Which file of a folder holds which tensor, as Hugging Face writes it.
struct WeightIndex {
  std::map<std::string, std::string> files;  // by tensor
  int64_t total_bytes = 0;                   // of all tensors; not read
};

std::string IndexToJson(const WeightIndex& index);
// kInvalidArgument: it is none, or a file's name could lead out of the folder.
absl::StatusOr<WeightIndex> IndexFromJson(absl::string_view text);

}  // namespace stagecoach::checkpoint

#endif  // STAGECOACH_STAGE_WORKER_CHECKPOINT_INDEX_H_
