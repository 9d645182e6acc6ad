#ifndef STAGECOACH_COORDINATOR_BEGINNING_H_
#define STAGECOACH_COORDINATOR_BEGINNING_H_

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

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_BEGINNING_H_
