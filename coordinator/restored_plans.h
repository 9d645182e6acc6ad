#ifndef STAGECOACH_COORDINATOR_RESTORED_PLANS_H_
#define STAGECOACH_COORDINATOR_RESTORED_PLANS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/cluster_state.h"
#include "coordinator/planned_job.h"

namespace stagecoach::coordinator {

struct RestoredPlans {
  std::shared_ptr<const PlannedJob> present;
  std::shared_ptr<const PlannedJob> next;  // null: none waits
};

// The plans that the workers of a placed job have, made again from what is
// recorded of it. kFailedPrecondition if they cannot be. Takes as long as
// planning takes.
absl::StatusOr<RestoredPlans> RestorePlans(const JobRecord& job,
                                           const Planner& planner);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_RESTORED_PLANS_H_
