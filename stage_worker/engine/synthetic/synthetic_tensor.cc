#include "stage_worker/engine/synthetic/synthetic_tensor.h"

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::worker {

SyntheticTensor::SyntheticTensor(const TensorDescriptor& descriptor, void* data,
                                 std::shared_ptr<void> memory,
                                 memory::AccountingAllocator* allocator)
    : descriptor_(descriptor),
      data_(data),
      memory_(std::move(memory)),
      allocator_(allocator) {}

absl::StatusOr<std::shared_ptr<SyntheticTensor>> SyntheticTensor::Allocate(
    const TensorDescriptor& descriptor, const memory::Tag& tag,
    memory::AccountingAllocator* allocator) {
  const memory::ScopedTag scope(tag);
  const size_t bytes = descriptor.bytes();
  void* const data = allocator->Allocate(bytes);
  if (data == nullptr && bytes > 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("out of memory: ", bytes,
                     " bytes were refused by the memory limit or the system"));
  }
  if (bytes > 0) std::memset(data, 0, bytes);
  std::shared_ptr<void> memory(
      data, [allocator](void* block) { allocator->Free(block); });
  return std::shared_ptr<SyntheticTensor>(
      new SyntheticTensor(descriptor, data, std::move(memory), allocator));
}

absl::StatusOr<std::shared_ptr<SyntheticTensor>> SyntheticTensor::Adopt(
    const TensorDescriptor& descriptor, void* data,
    std::shared_ptr<void> memory) {
  if (!descriptor.IsValid() || (data == nullptr && descriptor.bytes() > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot take over ", descriptor.ToString()));
  }
  return std::shared_ptr<SyntheticTensor>(
      new SyntheticTensor(descriptor, data, std::move(memory), nullptr));
}

std::shared_ptr<const memory::BlockWatch> SyntheticTensor::watch() const {
  if (allocator_ == nullptr || data_ == nullptr) return nullptr;
  return allocator_->Watch(data_);
}

}  // namespace stagecoach::worker
