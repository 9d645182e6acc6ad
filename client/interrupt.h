#ifndef STAGECOACH_CLIENT_INTERRUPT_H_
#define STAGECOACH_CLIENT_INTERRUPT_H_

#include <functional>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace stagecoach::client {

// What may end a wait from outside: Ctrl-C, or the end of a process of a local
// cluster. A reason stays raised until it is taken. Thread-safe; lives longer
// than everyone who raises it.
class Interrupt {
 public:
  enum class Reason { kUser, kChildEnded };

  // Runs the waker, if there is one, on the calling thread.
  void Raise(Reason reason) SC_EXCLUDES(mu_);
  // True if it was raised; it is not any more.
  bool Take(Reason reason) SC_EXCLUDES(mu_);
  // Whether any reason is raised.
  bool IsRaised() const SC_EXCLUDES(mu_);
  // Waits at most `timeout`; whether any reason is raised then.
  bool WaitFor(absl::Duration timeout) const SC_EXCLUDES(mu_);

  // What makes a blocking call return. Must own what it touches: it may run
  // once more right after it was replaced. nullptr: none.
  void SetWaker(std::function<void()> waker) SC_EXCLUDES(mu_);

 private:
  bool IsRaisedLocked() const SC_REQUIRES(mu_) {
    return raised_[0] || raised_[1];
  }

  mutable Mutex mu_;
  mutable CondVar changed_;
  bool raised_[2] SC_GUARDED_BY(mu_) = {false, false};
  std::function<void()> waker_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_INTERRUPT_H_
