#include "client/interrupt.h"

#include <utility>

namespace stagecoach::client {

void Interrupt::Raise(Reason reason) {
  std::function<void()> waker;
  {
    MutexLock lock(&mu_);
    raised_[static_cast<int>(reason)] = true;
    waker = waker_;
    changed_.NotifyAll();
  }
  if (waker != nullptr) waker();
}

bool Interrupt::Take(Reason reason) {
  MutexLock lock(&mu_);
  return std::exchange(raised_[static_cast<int>(reason)], false);
}

bool Interrupt::IsRaised() const {
  MutexLock lock(&mu_);
  return IsRaisedLocked();
}

bool Interrupt::WaitFor(absl::Duration timeout) const {
  const CondVar::TimePoint deadline = CondVar::DeadlineAfter(timeout);
  MutexLock lock(&mu_);
  while (!IsRaisedLocked() && changed_.WaitUntil(&mu_, deadline)) {
  }
  return IsRaisedLocked();
}

void Interrupt::SetWaker(std::function<void()> waker) {
  MutexLock lock(&mu_);
  waker_ = std::move(waker);
}

}  // namespace stagecoach::client
