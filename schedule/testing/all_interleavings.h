#ifndef STAGECOACH_SCHEDULE_TESTING_ALL_INTERLEAVINGS_H_
#define STAGECOACH_SCHEDULE_TESTING_ALL_INTERLEAVINGS_H_

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace stagecoach::schedule::testing {

struct Interleavings {
  // Distinct states that some order of events reaches.
  int64_t states = 0;
  // False: there are more than `most_states`, and nothing else here counts.
  bool all_tried = false;
  // Where the workers stand when nothing can happen any more: one entry for
  // each outcome that differs. Workers that meet an action that makes no sense
  // stop in front of it.
  std::vector<std::vector<int>> outcomes;
  // Every outcome is the end of a whole step.
  bool ends_well = false;
};

// kAlone: nothing but a computation happens between the moment a worker could
// begin it and its end. Since a computation touches nothing that another worker
// sees, the orders left out lead to the same outcomes.
enum class Computations { kInterleaved, kAlone };

// Tries every order in which the events of a lowered training schedule can
// happen: a worker takes its next action or reaches a RECV, an edge delivers a
// transfer, a sender learns of an acknowledgement. For small schedules: states
// grow with the product of the lists. Written without a line of the verifier or
// of naive_executor.h, which it judges. Knows no REDUCE_TIED.
Interleavings TryAllInterleavings(
    const Schedule& schedule, int64_t most_states,
    Computations computations = Computations::kInterleaved);

}  // namespace stagecoach::schedule::testing

#endif  // STAGECOACH_SCHEDULE_TESTING_ALL_INTERLEAVINGS_H_
