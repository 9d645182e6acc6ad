#ifndef STAGECOACH_STAGE_WORKER_ENGINE_BOUNDARY_BUFFER_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_BOUNDARY_BUFFER_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "memory/accounting_allocator.h"

namespace stagecoach::worker {

// One boundary tensor's bytes as a peer would have sent them, made up: what a
// stage is profiled with. Accounted as wire_receive.
class BoundaryBuffer {
 public:
  // kResourceExhausted if there is no memory for it. The allocator must outlive
  // the buffer.
  static absl::StatusOr<std::shared_ptr<BoundaryBuffer>> New(
      memory::AccountingAllocator* allocator, size_t bytes);

  BoundaryBuffer(memory::AccountingAllocator* allocator, size_t bytes)
      : allocator_(allocator), data_(allocator->Allocate(bytes)) {}
  ~BoundaryBuffer() { allocator_->Free(data_); }
  BoundaryBuffer(const BoundaryBuffer&) = delete;
  BoundaryBuffer& operator=(const BoundaryBuffer&) = delete;

  void* data() const { return data_; }

 private:
  memory::AccountingAllocator* const allocator_;
  void* const data_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_BOUNDARY_BUFFER_H_
