#ifndef STAGECOACH_SCHEDULE_TESTING_LISTS_H_
#define STAGECOACH_SCHEDULE_TESTING_LISTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedule/schedule.h"

// Small schedules for tests, written as one would say them.
namespace stagecoach::schedule::testing {

// "0F0 0B0" as actions; aborts the test program on anything else.
std::vector<Action> ParseList(absl::string_view list);
std::string Join(const std::vector<Action>& list);

// Stage s on worker s mod P; not lowered.
Schedule MakeSchedule(int microbatches, int stages_per_worker,
                      const std::vector<std::string>& lists);

// Every B as its I followed by its W.
Schedule SplitBackward(const Schedule& schedule);

// Breadth first: every microbatch through a worker's first stage, then through
// its second, ...; backwards likewise. Deadlocks for small K + D.
Schedule LoopedBreadthFirst(int workers, int stages_per_worker,
                            int microbatches);

EdgePlan* FindPlan(Schedule* schedule, int from, int to, Direction direction);

}  // namespace stagecoach::schedule::testing

#endif  // STAGECOACH_SCHEDULE_TESTING_LISTS_H_
