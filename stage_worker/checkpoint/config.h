#ifndef STAGECOACH_STAGE_WORKER_CHECKPOINT_CONFIG_H_
#define STAGECOACH_STAGE_WORKER_CHECKPOINT_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "job/job_spec.h"

namespace stagecoach::checkpoint {

// The config.json with which `transformers` loads this job's model: the one of
// the folder it began with, or one made from its sizes. kNotFound and the like
// if that folder's cannot be read. Blocks.
absl::StatusOr<std::string> ConfigJson(const job::JobSpec& spec);

}  // namespace stagecoach::checkpoint

#endif  // STAGECOACH_STAGE_WORKER_CHECKPOINT_CONFIG_H_
