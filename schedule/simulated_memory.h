#ifndef STAGECOACH_SCHEDULE_SIMULATED_MEMORY_H_
#define STAGECOACH_SCHEDULE_SIMULATED_MEMORY_H_

#include "schedule/list_run.h"
#include "schedule/simulator.h"

namespace stagecoach::schedule {

// Fills in what SimulateResult says of bytes, from a finished run with a
// timeline. `options.bytes` has one entry for all stages or one per stage.
void CountMemory(const Schedule& schedule, const SimulateOptions& options,
                 const ListRun& run, SimulateResult* result);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_SIMULATED_MEMORY_H_
