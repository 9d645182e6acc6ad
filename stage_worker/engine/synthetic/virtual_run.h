#ifndef STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_VIRTUAL_RUN_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_VIRTUAL_RUN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "job/job_spec.h"
#include "schedule/schedule.h"

namespace stagecoach::worker {

// By worker, then by edge in the order of the schedule's edges.
struct VirtualRunResult {
  // Summed over microbatches in ascending order.
  double loss_sum = 0;
  double gradient_norm_squared = 0;
  double makespan = 0;
  // Most chunks whose forward is done and whose backward is not.
  std::vector<int> peak_in_flight;
  // Most activations that were produced and not acknowledged.
  std::vector<int> peak_held_outputs;
  // Most slots of a pool that were taken at a time.
  std::vector<int> peak_slots;
};

// Runs one step of a lowered schedule to its end, or an evaluation if the spec
// says "forward-only": a synthetic engine for each
// worker, their transfers and acknowledgements, all on this thread under a
// clock that jumps from event to event. How long actions and transfers take is
// random, from `seed`; an edge stays a FIFO. kFailedPrecondition if workers
// wait for ever; the engines' errors otherwise. For tests.
absl::StatusOr<VirtualRunResult> RunVirtually(
    const job::JobSpec& spec, const schedule::Schedule& schedule,
    uint32_t seed);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_VIRTUAL_RUN_H_
