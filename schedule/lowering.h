#ifndef STAGECOACH_SCHEDULE_LOWERING_H_
#define STAGECOACH_SCHEDULE_LOWERING_H_

#include "absl/status/statusor.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule {

struct LoweringOptions {
  int send_budget = 2;  // K >= 1
  // Adds REDUCE_TIED of group 0 at the end of the lists of the workers of the
  // first and the last stage (once if that is one worker); nothing where there
  // is no backward.
  bool tied_embeddings = false;
  // An upper limit for every receive depth; 0: none.
  int max_receive_depth = 0;
};

// Adds communication, release gates, receive depths, pool sizes and tied
// reductions to a schedule of compute actions:
//  - SEND and its AWAIT_RELEASE right after the compute action that produces;
//  - RECV right before the compute action that consumes, but always in the
//    order in which the sender sends on that edge (earlier where needed);
//  - D as in docs/schedules: max(K, the smallest that is live, 1 + most
//    transfers sent before their RECV in the simulated run), at least 2.
// kInvalidArgument if the compute lists cannot be run in order at all, lack an
// action or have one twice, or if max_receive_depth is below the smallest that
// is live (the message has it). Pure.
absl::StatusOr<Schedule> Lower(const Schedule& compute,
                               const LoweringOptions& options);

// For lists that have their SENDs and RECVs already, from another program:
// keeps their order and adds what is missing to run them (an AWAIT_RELEASE
// before each SEND, receive depths, pool sizes, tied reductions). `send_budget`
// of `transfers` must be 0. kInvalidArgument as Lower; whether sends and
// receives match is the verifier's to say. Pure.
absl::StatusOr<Schedule> LowerWithTransfers(const Schedule& transfers,
                                            const LoweringOptions& options);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_LOWERING_H_
