#ifndef STAGECOACH_SCHEDULE_GENERATORS_BUILDER_H_
#define STAGECOACH_SCHEDULE_GENERATORS_BUILDER_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "schedule/generator.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule {

Action Forward(int stage, int microbatch);
Action Backward(int stage, int microbatch);
Action BackwardInput(int stage, int microbatch);
Action BackwardWeight(int stage, int microbatch);

// Stage s on worker s mod P.
std::vector<WorkerIndex> RoundRobinPlacement(const GenerateOptions& options);
// Stages wV to wV+V-1 on worker w.
std::vector<WorkerIndex> ContiguousPlacement(const GenerateOptions& options);
// Two stages per worker: stage s on worker s on the way there, on worker
// 2P-1-s on the way back.
std::vector<WorkerIndex> VShapedPlacement(const GenerateOptions& options);

// `warm_up` forwards, then one full backward and one forward in turn, then the
// remaining backwards. At least one forward comes first.
std::vector<Action> OneForwardOneBackwardList(int stage, int microbatches,
                                              int warm_up);
// The same with backward split: I takes the place of B, and W of a microbatch
// follows the I of the microbatch `delay` behind it. In flight
// min(M, warm_up + delay).
std::vector<Action> SplitOneForwardOneBackwardList(int stage, int microbatches,
                                                   int warm_up, int delay);

// A schedule of that shape with one empty list per worker.
Schedule EmptySchedule(absl::string_view kind, const GenerateOptions& options,
                       std::vector<WorkerIndex> placement);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_GENERATORS_BUILDER_H_
