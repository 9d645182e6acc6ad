#ifndef STAGECOACH_TRANSPORT_UCX_UCX_H_
#define STAGECOACH_TRANSPORT_UCX_UCX_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/transport.h"
#include "transport/ucx/settings.h"

namespace stagecoach::transport {

// UCX between processes: RDMA networks where there are some, TCP elsewhere. Its
// shared memory cannot tell that a peer has died (1.13), so it is not taken.
// One UCP worker per edge and direction; payloads are tagged
// messages from the sender's memory into the receiver's pool, in ordinary
// memory. What two_sided::NewEndpoint says holds, but that edges are opened in
// any order.
//
// Peers are trusted as far as UCX trusts them: it does not defend itself
// against a broken address or a broken message.
//
// kFailedPrecondition, with the reason: no library, no transport that fits, or
// this build has no UCX.
absl::StatusOr<std::unique_ptr<Endpoint>> NewUcxEndpoint(
    const EndpointOptions& options, const ucx::UcxSettings& settings);

// Of a worker, for its peers: what CheckUcxPair compares. As NewUcxEndpoint
// where that would fail.
absl::StatusOr<std::string> DescribeUcx(const ucx::UcxSettings& settings);
// OK, or why two workers that described themselves so cannot be the ends of an
// edge.
absl::Status CheckUcxPair(absl::string_view one, absl::string_view other);

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_UCX_UCX_H_
