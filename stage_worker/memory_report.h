#ifndef STAGECOACH_STAGE_WORKER_MEMORY_REPORT_H_
#define STAGECOACH_STAGE_WORKER_MEMORY_REPORT_H_

#include <string>

#include "stage_worker/placement.h"
#include "stagecoach/v1/memory.pb.h"

namespace stagecoach::worker {

void ToProto(const std::string& worker, const PlacementMemory& memory,
             v1::WorkerMemory* proto);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MEMORY_REPORT_H_
