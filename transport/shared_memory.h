#ifndef STAGECOACH_TRANSPORT_SHARED_MEMORY_H_
#define STAGECOACH_TRANSPORT_SHARED_MEMORY_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "transport/unique_fd.h"

namespace stagecoach::transport {

// Mapped memory behind a memfd that several processes may map. It has no name
// in any file system, so it is gone with the last process that holds it. It is
// sealed: a peer that could shrink it would kill its readers by SIGBUS.
// Immutable but for the bytes themselves; the destructor unmaps.
class SharedMemory {
 public:
  // `bytes` zero bytes, all reserved now rather than at the first touch.
  // kResourceExhausted if there are not so many. `name` shows in
  // /proc/PID/maps.
  static absl::StatusOr<std::shared_ptr<SharedMemory>> Create(const char* name,
                                                              size_t bytes);
  // Maps all of another process's memory. kInvalidArgument if it is no memfd,
  // empty, not sealed against shrinking, or larger than what its maker has
  // reserved: mapping that would take the rest from this host.
  static absl::StatusOr<std::shared_ptr<SharedMemory>> FromFd(UniqueFd fd);
  // How much that would be, without mapping it: for who knows what it must be.
  static absl::StatusOr<size_t> BytesBehind(int fd);
  // The first bytes of what is behind `fd`, without mapping it; zeroes where it
  // has fewer.
  static void ReadFirst(int fd, void* out, size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  // Gives mapping and descriptor away: the destructor then does nothing.
  void Leak();

 private:
  SharedMemory(UniqueFd fd, char* data, size_t bytes)
      : fd_(std::move(fd)), data_(data), bytes_(bytes) {}
  static absl::StatusOr<std::shared_ptr<SharedMemory>> Map(UniqueFd fd,
                                                           size_t bytes);

  UniqueFd fd_;
  char* data_;
  const size_t bytes_;
};

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_SHARED_MEMORY_H_
