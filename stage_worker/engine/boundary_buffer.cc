#include "stage_worker/engine/boundary_buffer.h"

#include "absl/status/status.h"
#include "memory/category.h"

namespace stagecoach::worker {

absl::StatusOr<std::shared_ptr<BoundaryBuffer>> BoundaryBuffer::New(
    memory::AccountingAllocator* allocator, size_t bytes) {
  memory::Tag tag;
  tag.category = memory::Category::kWireReceive;
  const memory::ScopedTag scope(tag);
  auto buffer = std::make_shared<BoundaryBuffer>(allocator, bytes);
  if (buffer->data() == nullptr) {
    return absl::ResourceExhaustedError(
        "no memory for one boundary tensor of the profile");
  }
  // Small numbers of both signs: as activations and gradients are.
  auto* const floats = static_cast<float*>(buffer->data());
  for (size_t i = 0; i < bytes / sizeof(float); ++i) {
    floats[i] = 0.01F * (static_cast<float>(i % 17) - 8);
  }
  return buffer;
}

}  // namespace stagecoach::worker
