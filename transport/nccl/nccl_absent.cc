// In place of nccl.cc where the headers were not found.
#include "transport/nccl/nccl.h"

namespace stagecoach::transport {
namespace {

absl::Status Absent() {
  return absl::FailedPreconditionError(
      "nccl: this build has no NCCL: nccl.h and the CUDA runtime's headers "
      "were "
      "not found when it was made; install them (CUDA_HOME) and build again");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> NewNcclEndpoint(
    const EndpointOptions& /*options*/,
    const nccl::NcclSettings& /*settings*/) {
  return Absent();
}

absl::StatusOr<std::string> DescribeNccl(
    const nccl::NcclSettings& /*settings*/) {
  return Absent();
}

absl::Status CheckNcclPair(absl::string_view /*one*/,
                           absl::string_view /*other*/, bool /*share_gpu*/) {
  return Absent();
}

}  // namespace stagecoach::transport
