#ifndef STAGECOACH_TRANSPORT_TCP_DESCRIPTOR_H_
#define STAGECOACH_TRANSPORT_TCP_DESCRIPTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/location.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/token.h"

namespace stagecoach::transport::tcp {

// How an endpoint is reached.
struct Descriptor {
  Location location;  // the user is not told
  Token instance{};   // which endpoint
  Token token{};      // secret: who shows it was sent by the coordinator
  std::vector<SocketAddress> addresses;  // tried in this order
};

// Of this process, without addresses. kFailedPrecondition without /proc.
absl::StatusOr<Descriptor> NewDescriptor();

// "tcp/1;host=...;net=...;instance=...;token=...;at=127.0.0.1:4321,[::1]:4321"
std::string Format(const Descriptor& descriptor);
// kInvalidArgument for anything but the above, kFailedPrecondition for another
// version of it.
absl::StatusOr<Descriptor> ParseDescriptor(absl::string_view text);

// Whether a process at `from` can reach one at `to` that listens on its own
// loopback only, or not: kFailedPrecondition with what keeps the two apart.
absl::Status CheckReachable(const Location& from, const Location& to,
                            bool loopback_only);
bool IsLoopbackOnly(const Descriptor& descriptor);

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_DESCRIPTOR_H_
