#ifndef STAGECOACH_TRANSPORT_TWO_SIDED_LIMITS_H_
#define STAGECOACH_TRANSPORT_TWO_SIDED_LIMITS_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace stagecoach::transport::two_sided {

// How long an edge waits for what it does not have in hand.
struct Limits {
  // A communicator that is not there by then fails its edge.
  absl::Duration initialise_within = absl::Seconds(60);
  // What an edge that closes waits for what it has under way; then it aborts.
  absl::Duration close_within = absl::Seconds(5);
  // An abort that has not come back by then never will.
  absl::Duration abort_within = absl::Seconds(10);
  Clock* clock = Clock::Real();

  // The library does not return from an abort: its buffers are never free again
  // and only the end of the process helps, so end it. Called at most once for
  // each abort, on a thread of its own.
  std::function<void(const absl::Status& why)> on_stuck;
};

}  // namespace stagecoach::transport::two_sided

#endif  // STAGECOACH_TRANSPORT_TWO_SIDED_LIMITS_H_
