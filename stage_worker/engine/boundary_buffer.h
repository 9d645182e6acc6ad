#ifndef STAGECOACH_STAGE_WORKER_ENGINE_BOUNDARY_BUFFER_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_BOUNDARY_BUFFER_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "job/boundary.h"
#include "memory/accounting_allocator.h"
#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::worker {

// What a peer would have sent of one microbatch, made up: what a stage is
// profiled with. Accounted as wire_receive.
class BoundaryBuffer {
 public:
  // kResourceExhausted if there is no memory for it. The allocator must outlive
  // the buffer.
  static absl::StatusOr<std::shared_ptr<BoundaryBuffer>> New(
      memory::AccountingAllocator* allocator, const job::Boundary& boundary);

  BoundaryBuffer(memory::AccountingAllocator* allocator,
                 const job::Boundary& boundary)
      : allocator_(allocator),
        boundary_(boundary),
        data_(allocator->Allocate(static_cast<size_t>(boundary.bytes()))) {}
  ~BoundaryBuffer() { allocator_->Free(data_); }
  BoundaryBuffer(const BoundaryBuffer&) = delete;
  BoundaryBuffer& operator=(const BoundaryBuffer&) = delete;

  void* data() const { return data_; }

  // Its tensors, each holding `memory`; of gradients those that there are.
  enum class Direction { kActivations, kGradients };
  absl::StatusOr<std::vector<TensorRef>> Adopt(
      StageEngine* engine, const std::shared_ptr<void>& memory,
      Direction direction) const;

 private:
  void Fill();

  memory::AccountingAllocator* const allocator_;
  const job::Boundary boundary_;
  void* const data_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_BOUNDARY_BUFFER_H_
