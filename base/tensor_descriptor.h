#ifndef STAGECOACH_BASE_TENSOR_DESCRIPTOR_H_
#define STAGECOACH_BASE_TENSOR_DESCRIPTOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stagecoach {

enum class DType : uint8_t {
  kFloat32 = 1,
  kFloat64 = 2,
  kBFloat16 = 3,
  kFloat16 = 4,
  kInt64 = 5,
  kInt32 = 6,
  kUInt8 = 7,
  kBool = 8,
};

// 0 for a value that is none of the above (it came from outside).
size_t DTypeBytes(DType dtype);
const char* DTypeName(DType dtype);  // "float32"
bool IsFloatingPoint(DType dtype);

// The shape and type of one dense, contiguous, row-major tensor.
struct TensorDescriptor {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;

  // Both stop at 2^63 - 1 instead of overflowing; 0 if a size is 0 or less.
  int64_t elements() const;
  size_t bytes() const;
  // For descriptors from outside: the type is known, no size is negative, and
  // the bytes fit into an int64.
  bool IsValid() const;
  std::string ToString() const;  // "float32[4, 128, 256]"

  friend bool operator==(const TensorDescriptor& a, const TensorDescriptor& b) {
    return a.dtype == b.dtype && a.shape == b.shape;
  }
};

// Every tensor of a transfer, and every slot, starts on such a boundary.
inline constexpr size_t kTensorAlignment = 64;
constexpr size_t AlignedBytes(size_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_TENSOR_DESCRIPTOR_H_
