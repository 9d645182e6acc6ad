#ifndef STAGECOACH_TRANSPORT_TWO_SIDED_REACTOR_H_
#define STAGECOACH_TRANSPORT_TWO_SIDED_REACTOR_H_

#include <poll.h>

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "transport/unique_fd.h"

namespace stagecoach::transport::two_sided {

// How soon it is worth looking again.
enum class Activity {
  kIdle,     // when something is posted, or an event has come
  kWaiting,  // soon: the library works, and wakes nobody
  kBusy,     // at once
};

// The one thread of an endpoint that calls its library. Runs posted tasks in
// order and, between them, `step`. Thread-safe.
class Reactor {
 public:
  // The thread's parts; all run on it.
  struct Work {
    std::string name;               // of the thread
    std::function<void()> prepare;  // first
    std::function<Activity()> step;
    // Before it sleeps: adds what it shall wake up for. False: do not sleep.
    std::function<bool(std::vector<pollfd>* events)> arm;
  };

  Reactor() = default;
  // Stops it.
  ~Reactor();

  // kResourceExhausted without a descriptor for it.
  absl::Status Start(Work work);
  // Runs what was posted, then joins. Idempotent.
  void Stop() SC_EXCLUDES(mu_);

  // Dropped once stopped.
  void Post(std::function<void()> task) SC_EXCLUDES(mu_);
  // Makes it step.
  void Wake() SC_EXCLUDES(mu_);

 private:
  using Tasks = std::deque<std::function<void()>>;

  void Loop() SC_EXCLUDES(mu_);
  absl::Duration SleepAfter(Activity activity);
  void Sleep(absl::Duration at_most) SC_EXCLUDES(mu_);
  void RingLocked() SC_REQUIRES(mu_);
  // False once stopped and without tasks.
  bool TakeTasks(Tasks* tasks) SC_EXCLUDES(mu_);

  Work work_;
  UniqueFd bell_;  // an eventfd, written to only while the thread sleeps
  Mutex mu_;
  Tasks tasks_ SC_GUARDED_BY(mu_);
  bool woken_ SC_GUARDED_BY(mu_) = false;
  bool sleeping_ SC_GUARDED_BY(mu_) = false;
  bool stopping_ SC_GUARDED_BY(mu_) = false;
  int quiet_polls_ = 0;  // the thread's own
  std::thread thread_;
};

}  // namespace stagecoach::transport::two_sided

#endif  // STAGECOACH_TRANSPORT_TWO_SIDED_REACTOR_H_
