#ifndef STAGECOACH_BASE_NOTIFICATION_H_
#define STAGECOACH_BASE_NOTIFICATION_H_

#include "absl/time/time.h"
#include "base/mutex.h"

namespace stagecoach {

// One event that happens once. Not absl::Notification, for the reason that
// base/mutex.h gives. Thread-safe. May be destroyed as soon as a wait returned.
class Notification {
 public:
  Notification() = default;
  Notification(const Notification&) = delete;
  Notification& operator=(const Notification&) = delete;

  void Notify() SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    notified_ = true;
    // Under the lock: the waiter may destroy this once it has it.
    changed_.NotifyAll();
  }
  bool HasBeenNotified() const SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return notified_;
  }
  void WaitForNotification() const SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    while (!notified_) changed_.Wait(&mu_);
  }
  // False if nothing happened within `timeout` of real time.
  bool WaitForNotificationWithTimeout(absl::Duration timeout) const
      SC_EXCLUDES(mu_) {
    const CondVar::TimePoint deadline = CondVar::DeadlineAfter(timeout);
    MutexLock lock(&mu_);
    while (!notified_ && changed_.WaitUntil(&mu_, deadline)) {
    }
    return notified_;
  }

 private:
  mutable Mutex mu_;
  mutable CondVar changed_;
  bool notified_ SC_GUARDED_BY(mu_) = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_NOTIFICATION_H_
