#ifndef STAGECOACH_TRANSPORT_UCX_TESTING_ENDPOINTS_H_
#define STAGECOACH_TRANSPORT_UCX_TESTING_ENDPOINTS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "transport/transport.h"

namespace stagecoach::transport::ucx::testing {

// An endpoint over UCX, on TCP and the loopback interface, and unix sockets.
absl::StatusOr<std::unique_ptr<Endpoint>> NewTestEndpoint(
    const EndpointOptions& options);

}  // namespace stagecoach::transport::ucx::testing

#endif  // STAGECOACH_TRANSPORT_UCX_TESTING_ENDPOINTS_H_
