#ifndef STAGECOACH_SCHEDULE_GREEDY_H_
#define STAGECOACH_SCHEDULE_GREEDY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedule/schedule.h"
#include "schedule/simulator.h"

namespace stagecoach::schedule {

// Which of several actions that could start now a worker takes. A weight
// gradient that stands alone (W) always comes last.
enum class GreedyOrder {
  kBackwardFirst,  // as early as possible: little in flight
  kForwardFirst,   // as many in flight as the limit allows
  kAlternate,      // one forward, one backward
};

struct GreedyOptions {
  std::vector<WorkerIndex> placement;
  int workers = 0;
  int stages_per_worker = 1;
  int microbatches = 0;
  std::vector<StageCosts> costs;  // by stage
  // By stage: time until another worker has its output; empty: 0.
  std::vector<double> transfer_times;
  // Of each worker, in units of `weights`; 0: none.
  int64_t limit = 0;
  std::vector<int64_t> weights;  // by stage: of one microbatch in flight
  bool split_backward = true;
  GreedyOrder order = GreedyOrder::kBackwardFirst;
};

// Makes compute lists by list scheduling: in simulated time each worker that is
// free takes, of what is ready, what `order` prefers. Each stage takes
// microbatches in ascending order. The limit holds at every point: a forward
// leaves room for the worker's later stages, so that the oldest microbatch can
// always go on, and no order ends in a deadlock.
// kResourceExhausted if one microbatch alone is over the limit; the message has
// worker and smallest limit. Pure and deterministic.
absl::StatusOr<Schedule> GreedySchedule(const GreedyOptions& options);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_GREEDY_H_
