#ifndef STAGECOACH_TRANSPORT_CALLBACK_QUEUE_H_
#define STAGECOACH_TRANSPORT_CALLBACK_QUEUE_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace stagecoach::transport {

// Callbacks that wait for a thread without locks to run them, each exactly
// once, and the guard that lets an edge be destroyed while other threads make
// progress on it. Thread-safe. Its lock is a leaf: nothing runs under it.
class CallbackQueue {
 public:
  // `cancelled`: the edge was closed before the callback's turn came.
  using Callback = std::function<void(bool cancelled)>;

  // The calling thread uses the edge until Leave(); false (and no Leave) once
  // closed. Nests.
  bool Enter() SC_EXCLUDES(mu_);
  void Leave() SC_EXCLUDES(mu_);

  void Push(Callback callback) SC_EXCLUDES(mu_);
  // Runs callbacks, also those pushed meanwhile, until none is left or the
  // queue is closed. Between Enter and Leave only. Whether it ran any.
  bool RunAll() SC_EXCLUDES(mu_);

  // Waits until no other thread is between Enter and Leave, then runs what is
  // left as cancelled. Afterwards no callback runs or is running, but for one
  // further up on this thread's own stack. Idempotent.
  void Close() SC_EXCLUDES(mu_);

 private:
  bool UsedElsewhere() const SC_REQUIRES(mu_);

  Mutex mu_;
  CondVar left_;
  std::deque<Callback> callbacks_ SC_GUARDED_BY(mu_);
  // One entry per Enter without Leave.
  std::vector<std::thread::id> users_ SC_GUARDED_BY(mu_);
  bool closed_ SC_GUARDED_BY(mu_) = false;
};

// Enter and Leave as a scope.
class CallbackQueueUse {
 public:
  explicit CallbackQueueUse(CallbackQueue* queue)
      : queue_(queue), entered_(queue->Enter()) {}
  ~CallbackQueueUse() {
    if (entered_) queue_->Leave();
  }
  CallbackQueueUse(const CallbackQueueUse&) = delete;
  CallbackQueueUse& operator=(const CallbackQueueUse&) = delete;
  explicit operator bool() const { return entered_; }

 private:
  CallbackQueue* const queue_;
  const bool entered_;
};

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_CALLBACK_QUEUE_H_
