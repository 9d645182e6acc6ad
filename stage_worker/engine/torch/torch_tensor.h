#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_TENSOR_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_TENSOR_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "absl/status/statusor.h"
#include "base/tensor_descriptor.h"
#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::worker {

// The executor's view of a tensor: holds one reference to it. Immutable.
class TorchTensor final : public EngineTensor {
 public:
  // `tensor` is whole, contiguous and detached (see WireReady). Throws
  // std::invalid_argument for an element type that no transfer can carry.
  explicit TorchTensor(at::Tensor tensor);

  const TensorDescriptor& descriptor() const override { return descriptor_; }
  const void* data() const override;
  const void* storage() const override;
  std::shared_ptr<const memory::BlockWatch> watch() const override;

  const at::Tensor& tensor() const { return tensor_; }

 private:
  const at::Tensor tensor_;
  const TensorDescriptor descriptor_;
};

// What identifies a storage between engine and ledger: where its bytes lie.
// Null for an empty one.
const void* StorageIdentity(const at::Tensor& tensor);

// Whether the bytes come from torch's allocator for the tensor's device, and
// not from a peer's arena.
bool InOwnMemory(const at::Tensor& tensor);

// A tensor over received bytes; `memory` is dropped with the last reference to
// them. kInvalidArgument for an invalid descriptor or data that is not 64-byte
// aligned (kernels would give other bits).
absl::StatusOr<at::Tensor> AdoptMemory(const TensorDescriptor& descriptor,
                                       void* data,
                                       std::shared_ptr<void> memory);

// `tensor`, detached, if its bytes can leave as they are: contiguous, the whole
// of their storage, in memory of our own. Otherwise a copy for which that
// holds, accounted as wire_send: views and received slots must not be pinned
// until a peer acknowledges.
at::Tensor WireReady(const at::Tensor& tensor, StageIndex stage,
                     MicrobatchIndex microbatch);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_TENSOR_H_
