#ifndef STAGECOACH_STAGE_WORKER_OUTPUT_SLOTS_H_
#define STAGECOACH_STAGE_WORKER_OUTPUT_SLOTS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/tensor_descriptor.h"
#include "schedule/schedule.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/peer_link.h"
#include "transport/transport.h"

namespace stagecoach::worker {

// An output that lies in the receiver's memory. Nothing of this process refers
// to it any more.
struct SlotOutput {
  TensorDescriptor descriptor;
  transport::WritableSlot slot;
};

// Zero copy: offers the engine a granted slot of the receiver's for the output
// of the compute action that comes next, and finds out whether it was used. A
// slot is only taken if the output is what its edge sends next: otherwise the
// transfers before it might wait for just that slot. Single-executor: the
// engine thread.
class OutputSlots {
 public:
  // All must outlive this.
  OutputSlots(const schedule::Schedule* schedule, WorkerIndex worker,
              PeerLink* link, StageEngine* engine)
      : schedule_(*schedule), worker_(worker), link_(link), engine_(engine) {}

  // Before the compute action at this place of the worker's list.
  void Offer(size_t at);
  // After it. If its output was produced in the slot, drops it; otherwise
  // leaves `outputs` as they are and gives the slot back. kInternal if
  // something still refers to the output.
  absl::StatusOr<std::optional<SlotOutput>> Take(
      std::vector<TensorRef>* outputs);
  // Forgets an offer whose action failed: its placement is over.
  void Clear();

 private:
  struct Lent {
    LinkEdge edge;
    transport::WritableSlot slot;
    std::shared_ptr<void> memory;  // the engine has copies of this
    bool unused() const { return memory.use_count() == 1; }
  };

  std::optional<LinkEdge> EdgeOfOutput(const schedule::Action& action) const;
  bool IsSentNext(size_t at, const LinkEdge& edge) const;
  void ReturnUnused();

  const schedule::Schedule& schedule_;
  const WorkerIndex worker_;
  PeerLink* const link_;
  StageEngine* const engine_;
  std::optional<Lent> offered_;
  // In which the engine has put something else that lives on.
  std::vector<Lent> kept_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_OUTPUT_SLOTS_H_
