#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_OUTPUT_PLACEMENT_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_OUTPUT_PLACEMENT_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/engine/torch/cpu_allocator.h"

namespace stagecoach::worker {

// Learns which allocation of a stage's forward (or backward) becomes its
// output, so that it can be served from a slot of the receiver's memory without
// the model's knowing. What is learned is the allocation's number and the sizes
// of all up to it, seen alike in two calls that were not served: the first may
// fill caches. An output that something beside the caller keeps (tanh saves its
// own) is never produced in a slot. Single-executor.
class OutputPlacement {
 public:
  // One call of the stage. It must end, by Stop(), before outputs are copied.
  class Call final : public AllocationWatcher {
   public:
    // Takes over `slot`, if there is one.
    Call(OutputPlacement* placement, std::optional<OutputSlot> slot);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    bool Serve(size_t bytes, c10::DataPtr* block) override;
    void OnAllocated(const void* block) override;

    void Stop();
    // Whether all of `output`, and nothing else, lies in the slot.
    bool HasInSlot(const at::Tensor& output) const;
    // Learns from the call's one output, which only the caller should hold. If
    // it lies in the slot and others hold it too, moves it out, for them as
    // well.
    void Finish(const at::Tensor& output);

   private:
    bool ServesNext(size_t bytes) const;
    void Learn(const at::Tensor& output) const;
    void MoveOut(const at::Tensor& output);

    OutputPlacement* const placement_;
    std::optional<OutputSlot> slot_;
    AllocationWatcher* outer_ = nullptr;
    bool watching_ = false;
    const void* served_ = nullptr;
    std::vector<size_t> sizes_;
    std::vector<const void*> blocks_;  // null: served
  };

 private:
  // Sizes of the allocations up to the output's, whose is the last.
  using Pattern = std::vector<size_t>;

  Pattern seen_;
  bool confirmed_ = false;
  bool never_ = false;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_OUTPUT_PLACEMENT_H_
