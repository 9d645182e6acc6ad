#ifndef STAGECOACH_COORDINATOR_PLACEMENT_POLICY_H_
#define STAGECOACH_COORDINATOR_PLACEMENT_POLICY_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/cluster_state.h"
#include "coordinator/natural_order.h"

namespace stagecoach::coordinator {

struct WorkerChoice {
  // In the order of their names, which is their index in the job. Empty if
  // there are not enough.
  std::vector<std::string> workers;
  // Then what is missing: "waiting for 4 idle workers, 2 registered".
  std::string reason;
};

// Chooses `count` idle workers, none of `draining`, that have the same libtorch
// (results are bit-equal only then): the group with the first name among those
// that are large enough. Deterministic; pure.
WorkerChoice ChooseWorkers(
    const std::map<std::string, WorkerRecord, NaturalOrder>& workers,
    const std::set<std::string>& draining, int64_t count);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_PLACEMENT_POLICY_H_
