#ifndef STAGECOACH_STAGE_WORKER_MEMORY_HOLDERS_H_
#define STAGECOACH_STAGE_WORKER_MEMORY_HOLDERS_H_

#include <string>
#include <vector>

#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/placement_memory.h"

namespace stagecoach::worker {

// "allocated 1.00 GiB (activation 800.00 MiB, ...); most is held by
// GeluBackward0 with 200.00 MiB, ...; 3 transfers of 12.00 MiB (1 %) are not
// acknowledged yet": what is said when memory runs out.
std::string DescribeHolders(const PlacementMemory& memory,
                            const std::vector<HeldBytes>& held);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MEMORY_HOLDERS_H_
