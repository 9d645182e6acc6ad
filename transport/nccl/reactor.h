#ifndef STAGECOACH_TRANSPORT_NCCL_REACTOR_H_
#define STAGECOACH_TRANSPORT_NCCL_REACTOR_H_

#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace stagecoach::transport::nccl {

// How soon it is worth looking again.
enum class Activity {
  kIdle,     // when something is posted
  kWaiting,  // soon: the device or NCCL works, and neither wakes anybody
  kBusy,     // at once
};

// The one thread of an endpoint that calls NCCL. Runs posted tasks in order
// and, between them, `step`. Thread-safe.
class Reactor {
 public:
  Reactor() = default;
  // Stops it.
  ~Reactor();

  // `prepare` runs first, on the thread.
  void Start(std::function<void()> prepare, std::function<Activity()> step);
  // Runs what was posted, then joins. Idempotent.
  void Stop() SC_EXCLUDES(mu_);

  // Dropped once stopped.
  void Post(std::function<void()> task) SC_EXCLUDES(mu_);
  // Makes it step.
  void Wake() SC_EXCLUDES(mu_);

 private:
  void Loop(const std::function<Activity()>& step) SC_EXCLUDES(mu_);
  // Sleeps as `activity` allows; false once stopped and without tasks.
  bool AwaitTasks(Activity activity, std::deque<std::function<void()>>* tasks)
      SC_EXCLUDES(mu_);

  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ SC_GUARDED_BY(mu_);
  bool woken_ SC_GUARDED_BY(mu_) = false;
  bool stopping_ SC_GUARDED_BY(mu_) = false;
  int quiet_polls_ = 0;  // the thread's own
  std::thread thread_;
};

}  // namespace stagecoach::transport::nccl

#endif  // STAGECOACH_TRANSPORT_NCCL_REACTOR_H_
