#ifndef STAGECOACH_RPC_ADDRESS_H_
#define STAGECOACH_RPC_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach::rpc {

// Where a server listens or a client connects: "127.0.0.1:7070", "[::1]:7070",
// "localhost:7070", "host.example:7070" or "unix:/path/of/socket".
struct Address {
  bool is_unix = false;
  std::string host;  // without brackets
  int port = 0;
  std::string path;  // of a unix socket

  // Whether only this machine can reach it: 127.0.0.0/8, ::1, localhost, unix.
  bool IsLoopback() const;
  std::string ToString() const;
};

// kInvalidArgument, with what would work, for anything else. Resolves nothing.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

}  // namespace stagecoach::rpc

#endif  // STAGECOACH_RPC_ADDRESS_H_
