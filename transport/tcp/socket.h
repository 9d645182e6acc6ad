#ifndef STAGECOACH_TRANSPORT_TCP_SOCKET_H_
#define STAGECOACH_TRANSPORT_TCP_SOCKET_H_

#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/tcp/byte_stream.h"
#include "transport/unique_fd.h"

namespace stagecoach::transport::tcp {

// A numeric address and port, IPv4 or IPv6.
class SocketAddress {
 public:
  // "127.0.0.1:4321", "[fd00::1]:4321". kInvalidArgument for anything else.
  static absl::StatusOr<SocketAddress> Parse(absl::string_view text);
  // Of a host (a numeric address or a name, which is resolved here: may block)
  // and a port. kInvalidArgument if there is no such host.
  static absl::StatusOr<SocketAddress> Of(const std::string& host, int port);
  // Where a bound socket is.
  static absl::StatusOr<SocketAddress> OfSocket(int fd);

  std::string ToString() const;
  int port() const;
  int family() const { return storage_.ss_family; }
  bool IsLoopback() const;
  bool IsWildcard() const;
  // The same address with another port.
  SocketAddress WithPort(int port) const;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage_);
  }
  socklen_t bytes() const { return bytes_; }

 private:
  SocketAddress(const sockaddr* address, socklen_t bytes);
  friend std::vector<SocketAddress> InterfaceAddresses(int family);

  sockaddr_storage storage_{};
  socklen_t bytes_ = 0;
};

// This machine's addresses that other machines may reach (port 0): those of the
// interfaces that are up, without loopback and link-local ones.
std::vector<SocketAddress> InterfaceAddresses(int family);

// Every socket here is non-blocking and close-on-exec.

// kAlreadyExists for a taken port, kInvalidArgument for an address that no
// interface has.
absl::StatusOr<UniqueFd> Listen(const SocketAddress& address);
// An invalid descriptor if nobody waits; kResourceExhausted without
// descriptors.
absl::StatusOr<UniqueFd> Accept(int listener);
// A socket whose connection is under way: writable once it stands or failed.
absl::StatusOr<UniqueFd> StartConnect(const SocketAddress& address);
// How that went. kUnavailable, with the reason; kNotFound if nobody listens
// there (the host answered, and refused).
absl::Status FinishConnect(int fd);

// A stream over the bare socket. Sets it up for transfers: no delay, broken
// paths noticed in seconds. As StreamFactory.
absl::StatusOr<std::unique_ptr<ByteStream>> NewPlainStream(UniqueFd socket,
                                                           bool dialled);

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_SOCKET_H_
