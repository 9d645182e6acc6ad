#ifndef STAGECOACH_SCHEDULE_VERIFIER_DEADLOCK_H_
#define STAGECOACH_SCHEDULE_VERIFIER_DEADLOCK_H_

#include <cstdint>
#include <vector>

#include "schedule/verifier_lists.h"
#include "schedule/verifier_view.h"

namespace stagecoach::schedule::verifier {

// Runs the lists greedily. Lists are in order, and what a worker waits for
// never goes away once it is there, so every timing ends where this run ends.
// If that is not the end of all lists: the shortest cycle of waits, and the
// smallest K or D that is live, if any is. Relies on the checks of
// verifier_lists.h; `present` and `receives` are theirs. Linear for a live
// schedule.
void CheckDeadlock(const View& view, const std::vector<uint16_t>& present,
                   const ReceiveOrder& receives, Findings* findings);

}  // namespace stagecoach::schedule::verifier

#endif  // STAGECOACH_SCHEDULE_VERIFIER_DEADLOCK_H_
