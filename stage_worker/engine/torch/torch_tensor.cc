#include "stage_worker/engine/torch/torch_tensor.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/tensor_descriptor.h"
#include "memory/category.h"
#include "stage_worker/engine/torch/cpu_allocator.h"
#include "stage_worker/engine/torch/dtypes.h"

namespace stagecoach::worker {
namespace {

TensorDescriptor Describe(const at::Tensor& tensor) {
  TensorDescriptor descriptor;
  descriptor.dtype = DTypeOf(tensor.scalar_type());
  descriptor.shape = tensor.sizes().vec();
  return descriptor;
}

bool CanLeaveAsItIs(const at::Tensor& tensor) {
  return tensor.is_contiguous() && tensor.storage_offset() == 0 &&
         tensor.nbytes() == tensor.storage().nbytes() && !tensor.is_neg() &&
         InOwnMemory(tensor);
}

}  // namespace

TorchTensor::TorchTensor(at::Tensor tensor)
    : tensor_(std::move(tensor)), descriptor_(Describe(tensor_)) {}

const void* TorchTensor::data() const { return tensor_.const_data_ptr(); }

const void* TorchTensor::storage() const { return StorageIdentity(tensor_); }

std::shared_ptr<const memory::BlockWatch> TorchTensor::watch() const {
  const auto& block = tensor_.storage().data_ptr();
  if (block.get() == nullptr || block.get_deleter() != CpuBlockDeleter()) {
    return nullptr;
  }
  return memory::AccountingAllocator::Process().Watch(block.get());
}

const void* StorageIdentity(const at::Tensor& tensor) {
  return tensor.storage().data();
}

bool InOwnMemory(const at::Tensor& tensor) {
  const auto& block = tensor.storage().data_ptr();
  return block.get() == nullptr ||
         block.get_deleter() ==
             c10::GetAllocator(tensor.device().type())->raw_deleter();
}

absl::StatusOr<at::Tensor> AdoptMemory(const TensorDescriptor& descriptor,
                                       void* data,
                                       std::shared_ptr<void> memory) {
  const bool aligned =
      reinterpret_cast<uintptr_t>(data) % kTensorAlignment == 0;
  const bool missing = data == nullptr && descriptor.bytes() > 0;
  if (!descriptor.IsValid() || !aligned || missing) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot take over ", descriptor.ToString(),
                     !aligned  ? ": data is not 64-byte aligned"
                     : missing ? ": no data"
                               : ": not a valid tensor"));
  }
  return at::from_blob(
      data, descriptor.shape,
      [memory = std::move(memory)](void*) { /* goes with the closure */ },
      at::TensorOptions().dtype(ScalarTypeOf(descriptor.dtype)));
}

at::Tensor WireReady(const at::Tensor& tensor, StageIndex stage,
                     MicrobatchIndex microbatch) {
  at::Tensor detached = tensor.detach();
  if (CanLeaveAsItIs(detached)) return detached;
  memory::Tag tag;
  tag.category = memory::Category::kWireSend;
  tag.stage = stage;
  tag.microbatch = microbatch;
  const memory::ScopedTag scope(tag);
  return at::empty(detached.sizes(), detached.options()).copy_(detached);
}

}  // namespace stagecoach::worker
