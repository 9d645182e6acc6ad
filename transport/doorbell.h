#ifndef STAGECOACH_TRANSPORT_DOORBELL_H_
#define STAGECOACH_TRANSPORT_DOORBELL_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stagecoach::transport {

// A futex word in memory that several processes may map: who has news for a
// worker rings its bell, whoever waits in that worker sleeps on it. To wait
// without losing a ring:
//
//   uint32_t seen = bell.Count();
//   if (look for news) ...            // after Count
//   bell.Wait(seen, timeout);         // returns at once if rung since
//
// Thread-safe and process-safe.
class Doorbell {
 public:
  // A bell of this process's own, in a memfd.
  static absl::StatusOr<std::unique_ptr<Doorbell>> Create();
  // Maps the bell behind `fd` (which the call takes over).
  static absl::StatusOr<std::unique_ptr<Doorbell>> FromFd(int fd);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  // To be passed to a peer over a unix socket. Owned by the bell.
  int fd() const { return fd_; }

  uint32_t Count() const;
  // Counts up and wakes everyone who sleeps on the bell (no system call if
  // nobody does).
  void Ring();
  // Sleeps until the count differs from `seen` or `timeout` has passed.
  void Wait(uint32_t seen, absl::Duration timeout);

 private:
  struct Shared;
  Doorbell(int fd, Shared* shared) : fd_(fd), shared_(shared) {}
  const int fd_;
  Shared* const shared_;
};

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_DOORBELL_H_
