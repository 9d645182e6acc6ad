#include "stage_worker/engine/boundary_buffer.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "memory/category.h"

namespace stagecoach::worker {

absl::StatusOr<std::shared_ptr<BoundaryBuffer>> BoundaryBuffer::New(
    memory::AccountingAllocator* allocator, const job::Boundary& boundary) {
  memory::Tag tag;
  tag.category = memory::Category::kWireReceive;
  const memory::ScopedTag scope(tag);
  auto buffer = std::make_shared<BoundaryBuffer>(allocator, boundary);
  if (buffer->data() == nullptr) {
    return absl::ResourceExhaustedError(
        "no memory for what the profile's stages receive");
  }
  buffer->Fill();
  return buffer;
}

// Small numbers of both signs, as activations and gradients are, whatever the
// type: half of a number's bytes are such a number in a type of half its width.
// 0x3C23 is 0.00995 as bfloat16 and 1.03 as float16. Integers are 0, which is
// an index into anything.
void BoundaryBuffer::Fill() {
  auto* const words = static_cast<uint32_t*>(data_);
  const auto bytes = static_cast<size_t>(boundary_.bytes());
  for (size_t i = 0; i < bytes / sizeof(uint32_t); ++i) {
    const auto half = static_cast<uint32_t>(0x3C23 + 3 * (i % 17)) |
                      (i % 2 == 0 ? 0U : 0x8000U);
    words[i] = half << 16 | half;
  }
  for (size_t i = 0; i < boundary_.tensors.size(); ++i) {
    const TensorDescriptor& tensor = boundary_.tensors[i];
    if (IsFloatingPoint(tensor.dtype)) continue;
    std::memset(static_cast<char*>(data_) + boundary_.OffsetOf(i), 0,
                tensor.bytes());
  }
}

absl::StatusOr<std::vector<TensorRef>> BoundaryBuffer::Adopt(
    StageEngine* engine, const std::shared_ptr<void>& memory,
    Direction direction) const {
  std::vector<TensorRef> adopted;
  for (size_t i = 0; i < boundary_.tensors.size(); ++i) {
    const TensorDescriptor& tensor = boundary_.tensors[i];
    if (direction == Direction::kGradients && !IsFloatingPoint(tensor.dtype)) {
      continue;
    }
    SC_ASSIGN_OR_RETURN(
        TensorRef ref,
        engine->Adopt(tensor, static_cast<char*>(data_) + boundary_.OffsetOf(i),
                      memory));
    adopted.push_back(std::move(ref));
  }
  return adopted;
}

}  // namespace stagecoach::worker
