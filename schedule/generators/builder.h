#ifndef STAGECOACH_SCHEDULE_GENERATORS_BUILDER_H_
#define STAGECOACH_SCHEDULE_GENERATORS_BUILDER_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "schedule/generator.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule {

Action Forward(int stage, int microbatch);
Action Backward(int stage, int microbatch);

// Stage s on worker s mod P.
std::vector<WorkerIndex> RoundRobinPlacement(const GenerateOptions& options);
// Stages wV to wV+V-1 on worker w.
std::vector<WorkerIndex> ContiguousPlacement(const GenerateOptions& options);

// A schedule of that shape with one empty list per worker.
Schedule EmptySchedule(absl::string_view kind, const GenerateOptions& options,
                       std::vector<WorkerIndex> placement);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_GENERATORS_BUILDER_H_
