#ifndef STAGECOACH_SCHEDULE_LIST_RUN_H_
#define STAGECOACH_SCHEDULE_LIST_RUN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule {

// The core that lowering and simulator share: runs the lists in order against
// simulated time. The verifier has its own.
//
// On edge e, counting transfers from 0: the receiver grants transfer n when it
// reaches its RECV n - D (the first D at once); RECV n waits for SEND n; a sent
// and granted transfer is acknowledged at once; AWAIT_RELEASE before SEND n
// waits until transfer n - K is acknowledged. SEND never waits.

// Of one stage, any unit.
struct ComputeDurations {
  double forward = 1;
  double backward = 2;
  double backward_input = 1;
  double backward_weight = 1;
};

struct ListRunOptions {
  std::vector<ComputeDurations> durations;  // by stage
  // As if every receive were granted from the start.
  bool unlimited_depth = false;
  bool timeline = false;
};

struct TimedAction {
  Action action;
  double start = 0;
  double end = 0;
};

// When the transfers of one edge were sent and their RECV was reached.
struct EdgeRun {
  EdgeId edge;
  std::vector<double> sent;
  std::vector<double> reached;
};

struct ListRun {
  // Every list came to its end; else `stuck` says who stands where.
  bool finished = false;
  std::string stuck;
  double makespan = 0;
  std::vector<double> busy;                        // by worker
  std::vector<EdgeRun> edges;                      // of the whole placement
  std::vector<std::vector<TimedAction>> timeline;  // compute, if asked for
};

// kInvalidArgument if the schedule's shape is wrong (shape.h), a lowered one
// has no plan for an edge, or there are not S durations. Linear.
absl::StatusOr<ListRun> RunLists(const Schedule& schedule,
                                 const ListRunOptions& options);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_LIST_RUN_H_
