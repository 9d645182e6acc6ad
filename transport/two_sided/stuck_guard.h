#ifndef STAGECOACH_TRANSPORT_TWO_SIDED_STUCK_GUARD_H_
#define STAGECOACH_TRANSPORT_TWO_SIDED_STUCK_GUARD_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace stagecoach::transport::two_sided {

// Watches over a call that may never return: says so once, on a thread of its
// own, when the guard still lives after `limit` by `clock`. Blocks nobody; the
// destructor joins.
class StuckGuard {
 public:
  // `what`: "nccl: ncclCommAbort of edge ...".
  StuckGuard(Clock* clock, absl::Duration limit, std::string what,
             std::function<void(const absl::Status&)> on_stuck);
  ~StuckGuard();
  StuckGuard(const StuckGuard&) = delete;
  StuckGuard& operator=(const StuckGuard&) = delete;

 private:
  void Watch() SC_EXCLUDES(mu_);

  Clock* const clock_;
  const absl::Duration limit_;
  const std::string what_;
  const std::function<void(const absl::Status&)> on_stuck_;
  const absl::Time deadline_;
  Mutex mu_;
  CondVar returned_changed_;
  bool returned_ SC_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace stagecoach::transport::two_sided

#endif  // STAGECOACH_TRANSPORT_TWO_SIDED_STUCK_GUARD_H_
