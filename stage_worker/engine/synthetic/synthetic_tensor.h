#ifndef STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_SYNTHETIC_TENSOR_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_SYNTHETIC_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/tensor_descriptor.h"
#include "memory/accounting_allocator.h"
#include "memory/category.h"
#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::worker {

// Memory with a shape, either a block of the accounting allocator or adopted.
// The bytes may be written by their maker alone. Thread-compatible.
class SyntheticTensor final : public EngineTensor {
 public:
  // A zeroed block, accounted under `tag`. kResourceExhausted if the allocator
  // refuses. The allocator must outlive the tensor.
  static absl::StatusOr<std::shared_ptr<SyntheticTensor>> Allocate(
      const TensorDescriptor& descriptor, const memory::Tag& tag,
      memory::AccountingAllocator* allocator);
  // Received bytes, not accounted here. kInvalidArgument for an invalid
  // descriptor or missing data.
  static absl::StatusOr<std::shared_ptr<SyntheticTensor>> Adopt(
      const TensorDescriptor& descriptor, void* data,
      std::shared_ptr<void> memory);

  const TensorDescriptor& descriptor() const override { return descriptor_; }
  const void* data() const override { return data_; }
  const void* storage() const override { return data_; }
  std::shared_ptr<const memory::BlockWatch> watch() const override;

  uint8_t* bytes() { return static_cast<uint8_t*>(data_); }
  const uint8_t* bytes() const { return static_cast<const uint8_t*>(data_); }
  size_t size_bytes() const { return descriptor_.bytes(); }

 private:
  SyntheticTensor(const TensorDescriptor& descriptor, void* data,
                  std::shared_ptr<void> memory,
                  memory::AccountingAllocator* allocator);

  const TensorDescriptor descriptor_;
  void* const data_;
  const std::shared_ptr<void> memory_;
  memory::AccountingAllocator* const allocator_;  // null for adopted memory
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_SYNTHETIC_TENSOR_H_
