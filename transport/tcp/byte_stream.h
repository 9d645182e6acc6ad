#ifndef STAGECOACH_TRANSPORT_TCP_BYTE_STREAM_H_
#define STAGECOACH_TRANSPORT_TCP_BYTE_STREAM_H_

#include <sys/uio.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "transport/unique_fd.h"

namespace stagecoach::transport::tcp {

// A connected, reliable stream of bytes over a socket, plain or TLS's. Never
// blocks. One thread may read while another writes.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // How many bytes were moved; fewer than asked for: no more can be now, and
  // the socket's next event says when, whether for reading or writing (either
  // may wait for the other under TLS). kUnavailable once the other side has
  // closed or the connection is broken.
  virtual absl::StatusOr<size_t> Read(const iovec* parts, int count) = 0;
  virtual absl::StatusOr<size_t> Write(const iovec* parts, int count) = 0;
  // Whether the socket has all that Write has taken; if not, Write goes on with
  // that first, also if it is given nothing. Any thread.
  virtual bool drained() const { return true; }
  // The other side reads to here and then sees the end.
  virtual void EndWriting() = 0;
  // To wait on.
  virtual int fd() const = 0;
};

// Makes a stream of a connected, non-blocking socket.
using StreamFactory = std::function<absl::StatusOr<std::unique_ptr<ByteStream>>(
    UniqueFd socket, bool dialled)>;

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_BYTE_STREAM_H_
