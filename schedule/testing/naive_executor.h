#ifndef STAGECOACH_SCHEDULE_TESTING_NAIVE_EXECUTOR_H_
#define STAGECOACH_SCHEDULE_TESTING_NAIVE_EXECUTOR_H_

#include <string>

#include "schedule/schedule.h"

namespace stagecoach::schedule::testing {

// Runs a lowered training schedule as workers would, with named tensors in
// sets, and says what goes wrong first, or "" if the step ends well. Slow and
// plain on purpose: the verifier is measured against it. Knows no REDUCE_TIED.
std::string RunNaively(const Schedule& schedule);

}  // namespace stagecoach::schedule::testing

#endif  // STAGECOACH_SCHEDULE_TESTING_NAIVE_EXECUTOR_H_
