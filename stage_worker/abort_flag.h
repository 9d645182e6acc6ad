#ifndef STAGECOACH_STAGE_WORKER_ABORT_FLAG_H_
#define STAGECOACH_STAGE_WORKER_ABORT_FLAG_H_

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace stagecoach::worker {

// Why a placement stops, set once by whoever notices first. Every wait of the
// engine thread looks at it. Thread-safe.
class AbortFlag {
 public:
  // The first call decides; later ones change nothing and return false.
  // `blamed_worker` names the peer whose end or silence is the cause; empty
  // where it lies in this process or was asked for.
  bool Set(absl::Status status, const std::string& blamed_worker = "") {
    MutexLock lock(&mu_);
    if (set_.load(std::memory_order_relaxed)) return false;
    status_ = std::move(status);
    blamed_worker_ = blamed_worker;
    set_.store(true, std::memory_order_release);
    return true;
  }
  bool IsSet() const { return set_.load(std::memory_order_acquire); }
  // OK while not set.
  absl::Status status() const {
    MutexLock lock(&mu_);
    return status_;
  }
  std::string blamed_worker() const {
    MutexLock lock(&mu_);
    return blamed_worker_;
  }

 private:
  mutable Mutex mu_;
  std::atomic<bool> set_{false};
  absl::Status status_ SC_GUARDED_BY(mu_);
  std::string blamed_worker_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ABORT_FLAG_H_
