#ifndef STAGECOACH_TRANSPORT_UNIQUE_FD_H_
#define STAGECOACH_TRANSPORT_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace stagecoach::transport {

// Owns one file descriptor. Thread-compatible.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { Reset(); }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_UNIQUE_FD_H_
