#ifndef STAGECOACH_COORDINATOR_RECOVERY_POLICY_H_
#define STAGECOACH_COORDINATOR_RECOVERY_POLICY_H_

#include <string>

#include "coordinator/cluster_state.h"
#include "coordinator/failure.h"

namespace stagecoach::coordinator {

struct RecoveryDecision {
  bool recover = false;
  // For people: which attempt it is ("1 of at most 3"), or why the job ends
  // ("recovery.max_failures = 3 is used up"). Empty where the cause says all.
  std::string words;
};

// Whether a placed job survives this failure. Only the loss of a worker, or of
// what connects workers, may go away by itself: bad data, a refused spec, too
// little memory and faults of the engine would come again. Of those a job
// survives recovery.max_failures, and not recovery.no_progress in a row in
// which no step was committed for the first time. Pure.
RecoveryDecision DecideRecovery(const JobRecord& job,
                                const FailureCause& cause);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_RECOVERY_POLICY_H_
