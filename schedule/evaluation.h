#ifndef STAGECOACH_SCHEDULE_EVALUATION_H_
#define STAGECOACH_SCHEDULE_EVALUATION_H_

#include "absl/status/statusor.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule {

// Forwards alone, between the training steps of `training` (lowered): on its
// placement, over its edges with their receive depths and pools, and with its
// send budget, so that nothing has to be opened anew. Lowered and verified.
// Pure.
absl::StatusOr<Schedule> EvaluationSchedule(const Schedule& training,
                                            int microbatches);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_EVALUATION_H_
