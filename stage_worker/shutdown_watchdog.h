#ifndef STAGECOACH_STAGE_WORKER_SHUTDOWN_WATCHDOG_H_
#define STAGECOACH_STAGE_WORKER_SHUTDOWN_WATCHDOG_H_

#include <unistd.h>

#include <thread>

#include "absl/time/time.h"
#include "base/log.h"
#include "base/mutex.h"

namespace stagecoach::worker {

// Ends the process by force if the scope it stands in takes longer than
// `limit`.
class ShutdownWatchdog {
 public:
  explicit ShutdownWatchdog(absl::Duration limit)
      : thread_([this, limit] { Watch(limit); }) {}
  ~ShutdownWatchdog() {
    {
      MutexLock lock(&mu_);
      done_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

 private:
  void Watch(absl::Duration limit) {
    const CondVar::TimePoint until = CondVar::DeadlineAfter(limit);
    MutexLock lock(&mu_);
    while (!done_ && changed_.WaitUntil(&mu_, until)) {
    }
    if (done_) return;
    LogError("the worker did not stop in time; ending the process");
    _exit(1);
  }

  Mutex mu_;
  CondVar changed_;
  bool done_ SC_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_SHUTDOWN_WATCHDOG_H_
