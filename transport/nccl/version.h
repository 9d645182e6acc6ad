#ifndef STAGECOACH_TRANSPORT_NCCL_VERSION_H_
#define STAGECOACH_TRANSPORT_NCCL_VERSION_H_

#include <string>

#include "absl/status/status.h"

namespace stagecoach::transport::nccl {

// "2.28.9" for ncclGetVersion's 22809.
std::string VersionText(int version);

// OK for a library version that this path works with; kFailedPrecondition, with
// what is wrong with it and what helps, for one below the floor and for those
// known to be bad. `ras_enabled`: NCCL's own monitoring is not switched off.
absl::Status CheckNcclVersion(int version, bool on_arm, bool ras_enabled);
// For this machine and environment.
absl::Status CheckNcclVersion(int version);

}  // namespace stagecoach::transport::nccl

#endif  // STAGECOACH_TRANSPORT_NCCL_VERSION_H_
