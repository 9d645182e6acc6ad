#include "base/tensor_descriptor.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stagecoach {
namespace {

constexpr int64_t kSaturated = std::numeric_limits<int64_t>::max();

}  // namespace

size_t DTypeBytes(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kUInt8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    case DType::kInt64:
      return "int64";
    case DType::kInt32:
      return "int32";
    case DType::kUInt8:
      return "uint8";
    case DType::kBool:
      return "bool";
  }
  return "unknown";
}

bool IsFloatingPoint(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kFloat32:
    case DType::kBFloat16:
    case DType::kFloat16:
      return true;
    case DType::kInt64:
    case DType::kInt32:
    case DType::kUInt8:
    case DType::kBool:
      return false;
  }
  return false;
}

int64_t TensorDescriptor::elements() const {
  int64_t product = 1;
  bool overflow = false;
  for (const int64_t size : shape) {
    if (size <= 0) return 0;
    overflow = overflow || __builtin_mul_overflow(product, size, &product);
  }
  return overflow ? kSaturated : product;
}

size_t TensorDescriptor::bytes() const {
  int64_t product = 0;
  if (__builtin_mul_overflow(
          elements(), static_cast<int64_t>(DTypeBytes(dtype)), &product)) {
    product = kSaturated;
  }
  return static_cast<size_t>(product);
}

bool TensorDescriptor::IsValid() const {
  if (DTypeBytes(dtype) == 0) return false;
  for (const int64_t size : shape) {
    if (size < 0) return false;
  }
  return bytes() < static_cast<size_t>(kSaturated);
}

std::string TensorDescriptor::ToString() const {
  return absl::StrCat(DTypeName(dtype), "[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace stagecoach
