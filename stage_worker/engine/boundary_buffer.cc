#include "stage_worker/engine/boundary_buffer.h"

#include <cstdint>

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
  // Small numbers of both signs, as activations and gradients are, whatever the
  // type: half of a number's bytes are such a number in a type of half its
  // width. 0x3C23 is 0.00995 as bfloat16 and 1.03 as float16.
  auto* const words = static_cast<uint32_t*>(buffer->data());
  for (size_t i = 0; i < bytes / sizeof(uint32_t); ++i) {
    const auto half = static_cast<uint32_t>(0x3C23 + 3 * (i % 17)) |
                      (i % 2 == 0 ? 0U : 0x8000U);
    words[i] = half << 16 | half;
  }
  return buffer;
}

}  // namespace stagecoach::worker
