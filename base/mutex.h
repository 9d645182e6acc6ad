// A std::mutex that clang's thread-safety analysis understands.
//
// Not absl::Mutex: Debian's libabsl is not instrumented, so ThreadSanitizer
// does not see absl::Mutex order anything and reports races under it.
#ifndef STAGECOACH_BASE_MUTEX_H_
#define STAGECOACH_BASE_MUTEX_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

#if defined(__clang__)
#define SC_TSA(x) __attribute__((x))
#else
#define SC_TSA(x)
#endif
#define SC_GUARDED_BY(x) SC_TSA(guarded_by(x))
#define SC_PT_GUARDED_BY(x) SC_TSA(pt_guarded_by(x))
#define SC_REQUIRES(...) SC_TSA(requires_capability(__VA_ARGS__))
#define SC_EXCLUDES(...) SC_TSA(locks_excluded(__VA_ARGS__))

namespace stagecoach {

class SC_TSA(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() SC_TSA(acquire_capability()) { mu_.lock(); }
  void Unlock() SC_TSA(release_capability()) { mu_.unlock(); }
  // BasicLockable, for CondVar.
  void lock() SC_TSA(acquire_capability()) { mu_.lock(); }
  void unlock() SC_TSA(release_capability()) { mu_.unlock(); }

 private:
  std::mutex mu_;
};

class SC_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex* mu) SC_TSA(acquire_capability(mu)) : mu_(mu) {
    mu_->Lock();
  }
  ~MutexLock() SC_TSA(release_capability()) { mu_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mu_;
};

// Waits may wake without a reason: call them in a loop that looks at the
// condition. For a timed loop take one deadline and WaitUntil.
class CondVar {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // `timeout` from now; a very long or infinite one ends in a year.
  static TimePoint DeadlineAfter(absl::Duration timeout) {
    const absl::Duration bounded = std::min(timeout, absl::Hours(24 * 365));
    return std::chrono::steady_clock::now() +
           absl::ToChronoNanoseconds(std::max(bounded, absl::ZeroDuration()));
  }

  // The analysis sees the mutex held throughout, which holds for the caller.
  void Wait(Mutex* mu) SC_REQUIRES(mu) SC_TSA(no_thread_safety_analysis) {
    cv_.wait(*mu);
  }
  // False once `deadline` has passed.
  bool WaitUntil(Mutex* mu, TimePoint deadline) SC_REQUIRES(mu)
      SC_TSA(no_thread_safety_analysis) {
    return cv_.wait_until(*mu, deadline) == std::cv_status::no_timeout;
  }
  // False once `timeout` has passed.
  template <typename Rep, typename Period>
  bool WaitFor(Mutex* mu, std::chrono::duration<Rep, Period> timeout)
      SC_REQUIRES(mu) SC_TSA(no_thread_safety_analysis) {
    return cv_.wait_for(*mu, timeout) == std::cv_status::no_timeout;
  }
  bool WaitFor(Mutex* mu, absl::Duration timeout) SC_REQUIRES(mu) {
    return WaitUntil(mu, DeadlineAfter(timeout));
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable_any cv_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_MUTEX_H_
