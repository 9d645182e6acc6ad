#ifndef STAGECOACH_STAGE_WORKER_CHECK_ASSIGNMENT_H_
#define STAGECOACH_STAGE_WORKER_CHECK_ASSIGNMENT_H_

#include "absl/status/status.h"
#include "stage_worker/placement.h"

namespace stagecoach::worker {

// What a placement takes for granted of the numbers that the coordinator sent:
// the spec is valid, spec, schedule, stages and peers fit together, and the own
// list names only own stages. kInvalidArgument with what does not. The schedule
// itself was verified by who sent it.
absl::Status CheckAssignment(const PlacementOptions& options);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_CHECK_ASSIGNMENT_H_
