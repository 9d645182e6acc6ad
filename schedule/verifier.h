#ifndef STAGECOACH_SCHEDULE_VERIFIER_H_
#define STAGECOACH_SCHEDULE_VERIFIER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule {

struct VerifyOptions {
  // Whether the model's first and last stage share a parameter: then exactly
  // one REDUCE_TIED on each of their workers is demanded, else none allowed.
  bool tied_embeddings = false;
  // Lists of forward actions only are complete (evaluation).
  bool forward_only = false;
  // Bytes of one microbatch's retained input + output on each stage; with
  // `memory_limit_bytes` bounds the in-flight bytes of each worker. Empty: off.
  std::vector<int64_t> stage_in_flight_bytes;
  int64_t memory_limit_bytes = 0;
};

struct VerifyError {
  // "shape", "placement", "missing", "duplicate", "order", "edge_order",
  // "deadlock", "tied", "release", "memory".
  std::string kind;
  std::vector<WorkerIndex> workers;
  std::vector<std::string> actions;  // "w1: 1RECV_B0 (waits for 2SEND_B0)"
  std::string message;               // one sentence for people, with remedy
};

struct Verdict {
  bool ok = false;
  std::vector<VerifyError> errors;
  // Most microbatches (chunks: stage and microbatch pairs) whose forward is
  // done and whose backward (B, or W after I) is not, per worker.
  std::vector<int> peak_in_flight;
  // Every parameter adds up its microbatches in ascending order.
  bool ascending_accumulation = false;

  // OK, or kInvalidArgument with all messages.
  absl::Status ToStatus() const;
};

// Proves a schedule, whoever made it, under rendezvous semantics: a send
// completes only when its receive is granted (D receives are granted ahead), at
// most K transfers of an edge are unacknowledged, each edge is a FIFO. A worker
// waits in RECV, AWAIT_RELEASE and REDUCE_TIED; SEND is asynchronous. Since
// lists are in order and K and D fixed, one greedy run decides. Accepts a list
// that is not lowered too (then communication is taken as instantaneous and
// only order and completeness are proved). Shares no code with generators,
// lowering and simulator. Pure; linear in the number of actions.
Verdict Verify(const Schedule& schedule, const VerifyOptions& options = {});

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_VERIFIER_H_
