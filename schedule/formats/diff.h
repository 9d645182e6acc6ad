#ifndef STAGECOACH_SCHEDULE_FORMATS_DIFF_H_
#define STAGECOACH_SCHEDULE_FORMATS_DIFF_H_

#include <cstddef>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace stagecoach::schedule {

// The first action at which two lists of one worker differ.
struct ListDifference {
  WorkerIndex worker;
  size_t position = 0;      // from 0
  std::string left, right;  // the actions there; "" at the end of a list
};

struct ScheduleDifference {
  // "microbatches: 4 and 8", "edge 0->1 activation: receive_depth 2 and 3".
  std::vector<std::string> header;
  std::vector<ListDifference> lists;  // ascending by worker

  bool empty() const { return header.empty() && lists.empty(); }
};

// How `right` differs from `left`. Pure; linear.
ScheduleDifference Diff(const Schedule& left, const Schedule& right);

// One line per difference; "" if there is none.
std::string ToText(const ScheduleDifference& difference);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_FORMATS_DIFF_H_
