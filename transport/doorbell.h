#ifndef STAGECOACH_TRANSPORT_DOORBELL_H_
#define STAGECOACH_TRANSPORT_DOORBELL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "transport/spin_policy.h"

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

  // To be passed to a peer over a unix socket. Owned by the bell. Another
  // process can wake sleepers on the futex only, so from here on all sleep
  // there.
  int fd() SC_EXCLUDES(mu_);

  // Also wakes whoever sleeps on the bell once `source` is readable: what comes
  // through the kernel then wakes the one who waits for it and no other thread
  // first. Not for a bell that other processes ring, where it does nothing.
  // `on_unwatched` is called, under a lock, when the last sleeper has left; it
  // must not block. `source` must stay open until RemoveSource.
  void AddSource(int source, std::function<void()> on_unwatched)
      SC_EXCLUDES(mu_);
  void RemoveSource(int source) SC_EXCLUDES(mu_);
  // Whether somebody sleeps on the sources at this moment.
  bool SourcesAreWatched() const {
    return watchers_.load(std::memory_order_seq_cst) > 0;
  }

  uint32_t Count() const;
  // Counts up and wakes everyone who sleeps on the bell (no system call if
  // nobody does).
  void Ring() SC_EXCLUDES(mu_);
  // Sleeps until the count differs from `seen` or `timeout` has passed
  // (or a source has something). After a brief wait it looks for a moment
  // before it sleeps (SpinPolicy).
  void Wait(uint32_t seen, absl::Duration timeout) SC_EXCLUDES(mu_);

 private:
  struct Shared;
  struct Source {
    int fd = -1;
    std::function<void()> on_unwatched;
  };
  Doorbell(int fd, Shared* shared) : fd_(fd), shared_(shared) {}
  bool SleepsOnSources() const;
  void WaitOnSources(uint32_t seen, absl::Duration timeout,
                     SpinPolicy::Duration spin) SC_EXCLUDES(mu_);
  void WaitOnFutex(uint32_t seen, absl::Duration timeout,
                   SpinPolicy::Duration spin);
  void WakeWatchers() SC_EXCLUDES(mu_);

  const int fd_;
  Shared* const shared_;
  SpinPolicy spin_;
  std::atomic<bool> is_shared_{false};
  std::atomic<int> source_count_{0};
  std::atomic<int> watchers_{0};
  Mutex mu_;  // a leaf
  std::vector<Source> sources_ SC_GUARDED_BY(mu_);
  // An eventfd for each sleeper, of its thread.
  std::vector<int> wake_fds_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_DOORBELL_H_
