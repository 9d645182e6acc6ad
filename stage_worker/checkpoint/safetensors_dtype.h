#ifndef STAGECOACH_STAGE_WORKER_CHECKPOINT_SAFETENSORS_DTYPE_H_
#define STAGECOACH_STAGE_WORKER_CHECKPOINT_SAFETENSORS_DTYPE_H_

#include <array>
#include <optional>

#include "absl/strings/string_view.h"
#include "base/tensor_descriptor.h"

namespace stagecoach::checkpoint {

// Names of element types in a safetensors header, in the format's own order:
// a writer puts later ones first, so that every tensor is aligned.
struct SafetensorsDType {
  const char* name;
  DType dtype;
};
inline constexpr std::array<SafetensorsDType, 8> kSafetensorsDTypes = {{
    {"BOOL", DType::kBool},
    {"U8", DType::kUInt8},
    {"F16", DType::kFloat16},
    {"BF16", DType::kBFloat16},
    {"I32", DType::kInt32},
    {"F32", DType::kFloat32},
    {"F64", DType::kFloat64},
    {"I64", DType::kInt64},
}};

inline std::optional<DType> DTypeOf(absl::string_view name) {
  for (const SafetensorsDType& known : kSafetensorsDTypes) {
    if (name == known.name) return known.dtype;
  }
  return std::nullopt;
}

// Position in kSafetensorsDTypes.
inline size_t RankOf(DType dtype) {
  size_t rank = 0;
  while (rank < kSafetensorsDTypes.size() &&
         kSafetensorsDTypes[rank].dtype != dtype) {
    ++rank;
  }
  return rank;
}

}  // namespace stagecoach::checkpoint

#endif  // STAGECOACH_STAGE_WORKER_CHECKPOINT_SAFETENSORS_DTYPE_H_
