#ifndef STAGECOACH_SCHEDULE_SIMULATOR_H_
#define STAGECOACH_SCHEDULE_SIMULATOR_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule {

// Duration of one microbatch on one stage, in any unit.
struct StageCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;  // a full B costs input + weight
};

struct SimulateOptions {
  // One entry for all stages, or one per stage.
  // Not `= {StageCosts{}}`: g++ 12 warns of that wrongly (maybe-uninitialized).
  std::vector<StageCosts> costs = std::vector<StageCosts>(1);
};

struct WorkerTimes {
  double busy = 0;
  double idle = 0;  // makespan - busy
  int peak_in_flight = 0;
  // Most outputs held at once under release = "never": activations that cross
  // the wire, from their F to the end of their backward.
  int peak_held_outputs_never = 0;
};

struct TimelineEntry {
  Action action;
  double start = 0;
  double end = 0;
};

struct SimulateResult {
  double makespan = 0;
  double bubble_ratio = 0;  // sum of idle / (P * makespan)
  std::vector<WorkerTimes> workers;
  std::vector<std::vector<TimelineEntry>> timeline;  // compute actions
};

// Runs the lists in order with the given costs; communication takes no time,
// but a send waits for its grant and its budget where the schedule is lowered.
// Exact and deterministic. kFailedPrecondition if the lists deadlock,
// kInvalidArgument if costs do not fit.
absl::StatusOr<SimulateResult> Simulate(const Schedule& schedule,
                                        const SimulateOptions& options = {});

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_SIMULATOR_H_
