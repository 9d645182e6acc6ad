#ifndef STAGECOACH_CLIENT_PROFILE_MODEL_H_
#define STAGECOACH_CLIENT_PROFILE_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/interrupt.h"
#include "job/job_spec.h"
#include "job/model_profile.h"

namespace stagecoach::client {

// Starts a worker process that measures one microbatch of the spec's model on
// this machine and ends. Blocks for seconds. kCancelled when `interrupt` is
// raised; kInvalidArgument for what the worker finds wrong with model or data,
// kInternal with the end of its log for everything else.
absl::StatusOr<job::ModelProfile> ProfileModel(const job::JobSpec& spec,
                                               const std::string& worker_binary,
                                               const Interrupt& interrupt);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_PROFILE_MODEL_H_
