#ifndef STAGECOACH_TRANSPORT_TCP_TCP_H_
#define STAGECOACH_TRANSPORT_TCP_TCP_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls_identity.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/counters.h"
#include "transport/transport.h"

namespace stagecoach::transport {

struct TcpOptions {
  // What to listen on: a numeric address or a name of this machine's. With
  // "0.0.0.0" or "::" every address of its interfaces is told to peers.
  std::string listen_host = "127.0.0.1";
  // Streams of TLS, with peers that the same authority knows; null: plain ones.
  // Both ends must have the same kind.
  std::shared_ptr<const TlsIdentity> tls;
  // Lets listen_host be more than a loopback address without TLS: who reads the
  // traffic can take part in it.
  bool allow_plaintext = false;
  // Checksums over payloads also within one host; between hosts always.
  bool checksum = false;
  tcp::ReconnectPolicy reconnect;
  absl::Duration greeting_time = absl::Seconds(5);
  // What is counted; may be null.
  std::shared_ptr<tcp::Counters> counters;
  // Instead of either, for tests.
  tcp::StreamFactory new_stream;
};

// TCP between processes on one host or several (Linux). The sender of an edge
// dials its receiver; all edges from one endpoint to another share a
// connection. A broken connection is made again and what had not arrived is
// sent again, once each. Payloads go from the tensors to the socket and from
// the socket to the granted slot without a copy between. One thread of its own
// per endpoint, asleep while nothing moves.
//
// A send completes locally when the receiver has all its bytes: until then they
// may have to be sent again.
//
// kPermissionDenied for an address that is not loopback without TLS and
// without allow_plaintext, kInvalidArgument for one that is none of this
// machine's.
absl::StatusOr<std::unique_ptr<Endpoint>> NewTcpEndpoint(
    const EndpointOptions& options, const TcpOptions& tcp = TcpOptions());

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_TCP_TCP_H_
