#ifndef STAGECOACH_STAGE_WORKER_PROFILE_COMMAND_H_
#define STAGECOACH_STAGE_WORKER_PROFILE_COMMAND_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "stage_worker/placement.h"

namespace stagecoach::worker {

// What `stagecoach-worker --profile FILE` prints: reads a v1.JobSpec from
// `file`, measures its model with `parts` on the calling thread, and returns
// the v1.ModelProfile as one line of JSON. `cancelled` as in ProfilerOptions.
// kInvalidArgument if the file holds no spec; the engine's and data's errors.
absl::StatusOr<std::string> ProfileAsJson(const PlacementParts& parts,
                                          const std::string& file,
                                          std::function<bool()> cancelled);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_PROFILE_COMMAND_H_
