#ifndef STAGECOACH_COORDINATOR_KEPT_STATES_H_
#define STAGECOACH_COORDINATOR_KEPT_STATES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stagecoach/v1/session.pb.h"

namespace stagecoach::coordinator {

// What live workers keep of jobs' state in their memory, by worker.
using KeptByWorker = std::map<std::string, v1::KeptStates>;

// A state that every stage can supply.
struct KeptChoice {
  int64_t step = 0;                  // updates that it holds
  std::vector<std::string> keepers;  // a worker, by stage
};

// The newest state of the job, of `first_step` to `last_step` updates, of which
// workers have all its stages; nullopt: there is none. Of several keepers of a
// stage the first by name. Pure.
std::optional<KeptChoice> ChooseKept(const KeptByWorker& kept,
                                     const std::string& job_id, size_t stages,
                                     int64_t first_step, int64_t last_step);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_KEPT_STATES_H_
