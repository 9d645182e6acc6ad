#ifndef STAGECOACH_STAGE_WORKER_WORKER_MAIN_H_
#define STAGECOACH_STAGE_WORKER_WORKER_MAIN_H_

#include <functional>

#include "stage_worker/placement.h"

namespace stagecoach::worker {

// The worker program: flags, signals, exit code. `customise` may replace parts
// after the flags have chosen the real ones (fault-injecting tests do).
int WorkerMain(int argc, char** argv,
               const std::function<void(PlacementParts*)>& customise = {});

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_WORKER_MAIN_H_
