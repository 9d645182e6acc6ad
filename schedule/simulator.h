#ifndef STAGECOACH_SCHEDULE_SIMULATOR_H_
#define STAGECOACH_SCHEDULE_SIMULATOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedule/list_run.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule {

// Duration of one microbatch on one stage, in any unit.
struct StageCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  // A full B where it was measured by itself; 0: input + weight.
  double backward = 0;

  double FullBackward() const {
    return backward > 0 ? backward : backward_input + backward_weight;
  }
};

// Of one microbatch on one stage.
struct StageBytes {
  // What it keeps from its forward to the end of its backward.
  int64_t in_flight = 0;
  // Its output, if that crosses a wire; the gradient coming back is as large.
  int64_t output = 0;
};

// When a sent activation's bytes are given back.
enum class ReleasePolicy {
  kAcknowledged,  // it has left and the receiver has acknowledged it
  kSent,          // it has left
  kNever,         // at the end of the microbatch's backward
};

struct SimulateOptions {
  // One entry for all stages, or one per stage.
  // Not `= {StageCosts{}}`: g++ 12 warns of that wrongly (maybe-uninitialized).
  std::vector<StageCosts> costs = std::vector<StageCosts>(1);
  // Likewise; empty: no bytes are counted, and transfers take only the latency.
  std::vector<StageBytes> bytes;
  // A transfer takes latency + bytes / bandwidth. Bytes per unit of time; 0:
  // infinite.
  double latency = 0;
  double bandwidth = 0;
  ReleasePolicy release = ReleasePolicy::kAcknowledged;
};

struct WorkerTimes {
  double busy = 0;
  double idle = 0;  // makespan - busy
  int peak_in_flight = 0;
  // Most outputs held at once under release = "never": activations that cross
  // the wire, from their F to the end of their backward.
  int peak_held_outputs_never = 0;
  // With `bytes` only.
  int64_t peak_in_flight_bytes = 0;
  int64_t peak_held_output_bytes = 0;
  int64_t receive_pool_bytes = 0;  // lowered only: slots are reserved whole
};

struct TimelineEntry {
  Action action;
  double start = 0;
  double end = 0;
};

// What a worker holds from this time on.
struct MemoryPoint {
  double time = 0;
  int64_t in_flight_bytes = 0;
  int64_t held_output_bytes = 0;
};

// One action of the longest chain. It started `waited` after the end of the one
// before it in the chain, a time that was spent on `wait`.
struct CriticalAction {
  WorkerIndex worker;
  Action action;
  double start = 0;
  double end = 0;
  double waited = 0;
  Wait wait = Wait::kNothing;
};

struct SimulateResult {
  double makespan = 0;
  double bubble_ratio = 0;  // sum of idle / (P * makespan)
  std::vector<WorkerTimes> workers;
  std::vector<std::vector<TimelineEntry>> timeline;  // compute actions
  // From an action that starts at 0 to the one that ends last; shortening
  // nothing else shortens the step.
  std::vector<CriticalAction> critical_path;
  // With `bytes` only: by worker, ascending in time, one per change.
  std::vector<std::vector<MemoryPoint>> memory;
};

// "worker", "hand-off", "arrival", "grant", "release", "tied"; "" for nothing.
absl::string_view WaitName(Wait wait);

// Runs the lists in order with the given costs; a send waits for its grant and
// its budget where the schedule is lowered (list_run.h has the model). Exact
// and deterministic. kFailedPrecondition if the lists deadlock,
// kInvalidArgument if costs, bytes, latency or bandwidth do not fit.
absl::StatusOr<SimulateResult> Simulate(const Schedule& schedule,
                                        const SimulateOptions& options = {});

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_SIMULATOR_H_
