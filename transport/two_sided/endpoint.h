#ifndef STAGECOACH_TRANSPORT_TWO_SIDED_ENDPOINT_H_
#define STAGECOACH_TRANSPORT_TWO_SIDED_ENDPOINT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/transport.h"
#include "transport/two_sided/carrier.h"
#include "transport/two_sided/limits.h"

namespace stagecoach::transport::two_sided {

// How endpoints of one kind describe themselves to each other.
struct Descriptions {
  // Of this endpoint, whose control channel has this address.
  std::function<std::string(const std::string& address)> describe;
  // The control channel's address of the peer that described itself so; or why
  // this endpoint cannot reach it.
  std::function<absl::StatusOr<std::string>(absl::string_view peer)> reach;
};

// An endpoint whose payloads go through `carrier`, and everything else through
// EndpointOptions::control_channels. A thread of its own calls the carrier;
// edges are opened in the order of EndpointOptions::opening_order.
//
// An edge that is lost takes the endpoint with it: its communicators can only
// be aborted together, and what was under way then cannot be sent again.
//
// kFailedPrecondition without control channels.
absl::StatusOr<std::unique_ptr<Endpoint>> NewEndpoint(
    const EndpointOptions& options, std::shared_ptr<Carrier> carrier,
    const Limits& limits, Descriptions descriptions);

}  // namespace stagecoach::transport::two_sided

#endif  // STAGECOACH_TRANSPORT_TWO_SIDED_ENDPOINT_H_
