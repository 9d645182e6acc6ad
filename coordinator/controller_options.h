#ifndef STAGECOACH_COORDINATOR_CONTROLLER_OPTIONS_H_
#define STAGECOACH_COORDINATOR_CONTROLLER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "coordinator/failure.h"
#include "coordinator/planned_job.h"

namespace stagecoach::coordinator {

struct ControllerOptions {
  // Greater in each life of the coordinator.
  Term term{1};
  absl::Duration heartbeat = absl::Milliseconds(500);
  // Silence after which a worker is suspect, and after which it is lost.
  absl::Duration suspect = absl::Seconds(2);
  absl::Duration dead = absl::Seconds(6);
  FailureGrace grace;
  // A worker that does not let go of a job for so long counts as dead.
  absl::Duration release_wait = absl::Seconds(5);
  // A failed job waits for its workers' last figures, but not longer.
  absl::Duration failed_wait = absl::Seconds(2);
  absl::Duration memory_wait = absl::Seconds(1);
  // A worker whose session ended is lost after so much silence, unless it comes
  // back or its peers have lost it too. After a start of the coordinator its
  // workers have `return_wait` to come back.
  absl::Duration reconnect_wait = absl::Seconds(6);
  absl::Duration return_wait = absl::Seconds(15);
  // A worker that beats and yet does not get on for so long, and for so many
  // times the longest of its job's last steps, is stuck: it counts as lost.
  // Before the first step of a placement is done nothing says how long one is.
  // A job whose workers all wait for each other for `stuck_wait`, or so many
  // steps, has lost something on its way: it is placed again.
  absl::Duration stuck_wait = absl::Seconds(60);
  double stuck_steps = 20;
  absl::Duration stuck_first_wait = absl::Minutes(30);
  // A job that lost a worker waits so long for another, then it ends.
  absl::Duration recovery_wait = absl::Seconds(60);
  // A connection that does not register for so long is ended.
  absl::Duration register_wait = absl::Seconds(10);
  // A worker whose heartbeats name another job than the one it was given, so
  // long after it was given, has lost it.
  absl::Duration hold_wait = absl::Seconds(5);
  // What can be found out again is written to the journal after this time, or
  // when there is so much of it.
  absl::Duration flush_wait = absl::Seconds(1);
  size_t flush_events = 16;
  // Finished jobs beyond so many are forgotten, the oldest first.
  size_t keep_jobs = 1000;
  Planner planner = job::PlanJob;
  // Called once, on the executor, if the controller stops because it cannot
  // record what happens.
  std::function<void(const absl::Status&)> on_failure;
};

// kInvalidArgument unless 0 < heartbeat < suspect < dead.
absl::Status ValidateTimes(const ControllerOptions& options);

// Messages that were refused because of their fence.
struct FenceCounters {
  int64_t stale_term = 0;
  int64_t stale_epoch = 0;
  int64_t stale_incarnation = 0;
  int64_t unregistered = 0;  // before Register, or after the session's end
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_CONTROLLER_OPTIONS_H_
