#ifndef STAGECOACH_SCHEDULE_SHAPE_H_
#define STAGECOACH_SCHEDULE_SHAPE_H_

#include <string>

#include "absl/status/status.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule {

// Checks of sizes and indices, for code that must be able to index by them.
// Says nothing about order or completeness: that is the verifier's, which does
// its own checks. Pure. Each *Problem returns what is wrong, or "".

// P, V, M, K and the placement.
std::string HeaderProblem(const Schedule& schedule);
// The indices of one action, under a header without problem. The "microbatch"
// of a REDUCE_TIED is a group and only has to be 0 or more.
std::string ActionProblem(const Schedule& schedule, const Action& action);

// kInvalidArgument unless the header is right, there is one list per worker,
// and every action is in range and on the worker that holds its stage; and if a
// table of S*M entries would be far larger than the lists.
absl::Status CheckShape(const Schedule& schedule);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_SHAPE_H_
