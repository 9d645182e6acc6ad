#ifndef STAGECOACH_TRANSPORT_NCCL_NCCL_H_
#define STAGECOACH_TRANSPORT_NCCL_NCCL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/nccl/settings.h"
#include "transport/transport.h"

namespace stagecoach::transport {

// NCCL between GPUs: one two-rank communicator per edge and direction, made
// when the edge is opened; payloads go from the sender's memory into the
// receiver's pool on the device. What two_sided::NewEndpoint says holds.
//
// kFailedPrecondition, with the reason: no library, no GPU, or this build has
// no NCCL.
absl::StatusOr<std::unique_ptr<Endpoint>> NewNcclEndpoint(
    const EndpointOptions& options, const nccl::NcclSettings& settings);

// Of a worker, for its peers: what CheckNcclPair compares. As NewNcclEndpoint
// where that would fail, also over memory that the engine could not read.
absl::StatusOr<std::string> DescribeNccl(const nccl::NcclSettings& settings);
// OK, or why two workers that described themselves so cannot be the ends of an
// edge.
absl::Status CheckNcclPair(absl::string_view one, absl::string_view other,
                           bool share_gpu);

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_NCCL_NCCL_H_
