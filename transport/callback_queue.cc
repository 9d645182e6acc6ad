#include "transport/callback_queue.h"

#include <algorithm>
#include <utility>

namespace stagecoach::transport {

bool CallbackQueue::Enter() {
  MutexLock lock(&mu_);
  if (closed_) return false;
  users_.push_back(std::this_thread::get_id());
  return true;
}

void CallbackQueue::Leave() {
  MutexLock lock(&mu_);
  users_.erase(
      std::find(users_.begin(), users_.end(), std::this_thread::get_id()));
  left_.NotifyAll();
}

void CallbackQueue::Push(Callback callback) {
  MutexLock lock(&mu_);
  callbacks_.push_back(std::move(callback));
}

bool CallbackQueue::RunAll() {
  bool any = false;
  while (true) {
    // Destroyed outside the lock: it may hold the last reference to a received
    // slot, whose return takes the edge's lock.
    Callback callback;
    {
      MutexLock lock(&mu_);
      if (closed_ || callbacks_.empty()) return any;
      callback = std::move(callbacks_.front());
      callbacks_.pop_front();
    }
    callback(/*cancelled=*/false);
    any = true;
  }
}

bool CallbackQueue::UsedElsewhere() const {
  const std::thread::id self = std::this_thread::get_id();
  return std::any_of(users_.begin(), users_.end(),
                     [self](std::thread::id user) { return user != self; });
}

void CallbackQueue::Close() {
  std::deque<Callback> left;
  {
    MutexLock lock(&mu_);
    closed_ = true;
    while (UsedElsewhere()) left_.Wait(&mu_);
    left.swap(callbacks_);
  }
  for (Callback& callback : left) callback(/*cancelled=*/true);
}

}  // namespace stagecoach::transport
