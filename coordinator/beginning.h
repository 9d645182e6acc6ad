#ifndef STAGECOACH_COORDINATOR_BEGINNING_H_
#define STAGECOACH_COORDINATOR_BEGINNING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/planned_job.h"

namespace stagecoach::coordinator {

// Decides with which step a planned job begins, and fills first_step and
// checkpoint: with the newest sound checkpoint of its directory if it is to
// resume, else with step 0. Damaged ones are passed over with a warning in the
// log. Reads and hashes a whole checkpoint: blocks.
//
// kInvalidArgument: it is to resume without a directory; the directory holds
// checkpoints and it is not to resume; all checkpoints are damaged; or the
// newest is of another run (checkpoint::CheckContinues).
absl::Status ChooseBeginning(const std::string& job_id, bool resume,
                             PlannedJob* planned);

// The same for a job that lost a worker after `steps_committed` steps and began
// with `first_step`: the newest sound checkpoint of its own, else step 0. Not
// before first_step, since earlier steps may have been another spec's.
//
// kFailedPrecondition: it did not begin with step 0, and no checkpoint from
// first_step on is left. kInvalidArgument as above.
absl::Status ChooseRecovery(const std::string& job_id, int64_t first_step,
                            int64_t steps_committed, PlannedJob* planned);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_BEGINNING_H_
