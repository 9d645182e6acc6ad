#ifndef STAGECOACH_SCHEDULE_LIST_RUN_H_
#define STAGECOACH_SCHEDULE_LIST_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule {

// The core that lowering and simulator share: runs the lists in order against
// simulated time. The verifier has its own.
//
// On edge e, counting transfers from 0: the receiver grants transfer n when it
// reaches its RECV n - D (the first D at once). Transfer n starts when it is
// sent, its grant has come, and the wire is free of transfer n - 1; it occupies
// the wire for its wire time and arrives a latency later. RECV n waits for its
// arrival; grants and acknowledgements take a latency back. AWAIT_RELEASE
// before SEND n waits until transfer n - K is acknowledged. SEND never waits.
// Wire time and latency are 0 unless given.

// Of one stage, any unit.
struct ComputeDurations {
  double forward = 1;
  double backward = 2;
  double backward_input = 1;
  double backward_weight = 1;
};

struct ListRunOptions {
  std::vector<ComputeDurations> durations;  // by stage
  double latency = 0;
  // By stage: wire time of its output, and of its input's gradient. Empty: 0.
  std::vector<double> activation_wire;
  std::vector<double> gradient_wire;
  // As if every receive were granted from the start.
  bool unlimited_depth = false;
  bool timeline = false;
};

// What the start of an action waited for last.
enum class Wait : uint8_t {
  kNothing,  // it started at 0
  kWorker,   // the worker's own action before it
  kHandOff,  // a result of another stage, without a wire
  kArrival,  // a transfer: wire time, latency, or the transfer before it
  kGrant,    // a transfer that the receiver had not granted yet
  kRelease,  // AWAIT_RELEASE: the send budget
  kTied,     // REDUCE_TIED: the other worker
};

// A point in time and the compute action that brought it about: action `index`
// in the timeline of `worker`; -1: none.
struct Moment {
  double at = 0;
  int32_t index = -1;
  uint16_t worker = 0;
  Wait wait = Wait::kNothing;
};

struct TimedAction {
  Action action;
  double start = 0;
  double end = 0;
  Moment cause;  // of the start
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
  Moment last;                 // what the makespan came about by
  std::vector<double> busy;    // by worker
  std::vector<EdgeRun> edges;  // of the whole placement
  // If a timeline is asked for: compute actions, by worker; and by stage * M +
  // microbatch when the stage's output had left and was acknowledged (-1: it
  // crosses no wire).
  std::vector<std::vector<TimedAction>> timeline;
  std::vector<double> output_left;
  std::vector<double> output_acknowledged;
};

// kInvalidArgument if the schedule's shape is wrong (shape.h), a lowered one
// has no plan for an edge, or there are not S durations. Linear.
absl::StatusOr<ListRun> RunLists(const Schedule& schedule,
                                 const ListRunOptions& options);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_LIST_RUN_H_
