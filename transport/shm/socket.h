#ifndef STAGECOACH_TRANSPORT_SHM_SOCKET_H_
#define STAGECOACH_TRANSPORT_SHM_SOCKET_H_

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "transport/unique_fd.h"

namespace stagecoach::transport::shm {

struct Packet {
  std::string bytes;
  std::vector<UniqueFd> fds;
  bool end = false;  // the peer has closed: no bytes
};

// A unix socket that keeps packets apart (SOCK_SEQPACKET), in the abstract
// namespace: no file, gone with its last descriptor. Every descriptor here is
// close-on-exec; a child that inherited one would hide its parent's death from
// the peers. Send and Receive may run on two threads. Shared ownership keeps
// the descriptor's number from being reused while somebody may still use it.
class Socket {
 public:
  // Bytes of the largest packet that is read; a larger one is an error.
  static constexpr size_t kMaxPacketBytes = 2048;
  static constexpr size_t kMaxFds = 4;

  // Nonblocking.
  static absl::StatusOr<std::shared_ptr<Socket>> Listen(absl::string_view name);
  // kUnavailable if nobody listens or accepts within `timeout`.
  static absl::StatusOr<std::shared_ptr<Socket>> Connect(
      absl::string_view name, absl::Duration timeout);
  // Of a listener, nonblocking. Null if nobody waits.
  absl::StatusOr<std::shared_ptr<Socket>> Accept();

  int fd() const { return fd_.get(); }
  // The user on the other side, as the kernel knows it.
  absl::StatusOr<uid_t> PeerUser() const;

  // Never blocks. The peer gets duplicates of `fds`, at most kMaxFds.
  absl::Status Send(absl::string_view bytes, const std::vector<int>& fds = {});
  // Never blocks. kUnavailable if there is nothing to read yet.
  absl::StatusOr<Packet> Receive();
  // Waits at most `timeout` for a packet.
  absl::StatusOr<Packet> Receive(absl::Duration timeout);

  explicit Socket(UniqueFd fd) : fd_(std::move(fd)) {}

 private:
  const UniqueFd fd_;
};

}  // namespace stagecoach::transport::shm

#endif  // STAGECOACH_TRANSPORT_SHM_SOCKET_H_
