#ifndef STAGECOACH_RPC_CHANNEL_H_
#define STAGECOACH_RPC_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tls_identity.h"

namespace stagecoach::rpc {

// From now on every server and channel of this process is TLS's, but those at
// unix sockets; peers must know each other by certificates of the same
// authority. Call before the first of them is made; null: no TLS. With an error
// servers fail with it, and channels carry nothing.
void UseTls(absl::StatusOr<std::shared_ptr<const TlsIdentity>> identity);
// What was given last.
absl::StatusOr<std::shared_ptr<const TlsIdentity>> TlsInUse();

struct ListenOptions {
  std::string address = "127.0.0.1:0";
  // Lets a listener bind an address other than loopback without TLS; warned
  // about at each start.
  bool allow_plaintext = false;
};

// A started server and the address it really listens on.
struct ListeningServer {
  std::unique_ptr<grpc::Server> server;
  std::string address;  // "127.0.0.1:43211"
};

// Starts `builder` (services already registered) with the channel settings that
// both ends share (keepalive, message limit, no port reuse).
// kPermissionDenied for an address that is not loopback, without TLS and
// without allow_plaintext; kAlreadyExists when the port is taken,
// kInvalidArgument for an address that cannot be read.
absl::StatusOr<ListeningServer> Listen(grpc::ServerBuilder& builder,
                                       const ListenOptions& options);

// kPermissionDenied, with a remedy, for an address beyond this machine without
// TLS: for programs that do what whoever answers there says.
absl::Status CheckDial(const std::string& address, bool allow_plaintext);

// A channel with the same settings. Never blocks.
std::shared_ptr<grpc::Channel> Connect(const std::string& address);

// Codes are the same on both sides; messages are kept.
absl::Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace stagecoach::rpc

#endif  // STAGECOACH_RPC_CHANNEL_H_
