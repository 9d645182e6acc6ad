#ifndef STAGECOACH_SCHEDULE_GENERATORS_BUILDING_BLOCK_H_
#define STAGECOACH_SCHEDULE_GENERATORS_BUILDING_BLOCK_H_

#include "absl/strings/string_view.h"
#include "schedule/generator.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule {

// How far each pass moves from one worker to the next, in slots of one action.
struct BlockSteps {
  int forward_there = 1;   // F of chunk 0, workers 0 to P-1
  int forward_back = 1;    // F of chunk 1, workers P-1 to 0
  int backward_there = 1;  // I of chunk 1, workers 0 to P-1
  int backward_back = 1;   // I of chunk 0, workers P-1 to 0
};

// A V-shaped schedule made of one building block: the slots of one microbatch's
// six actions on each worker. The block is repeated every six slots, so on no
// worker two of its actions may fall on the same slot modulo six; the waits at
// the three turns are the shortest for which that holds, and each weight
// gradient takes the first free slot after its input gradient. How long a block
// keeps a chunk decides what is in flight. Lists keep the order of the slots;
// at run time gaps close.
//
// Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS 2024
// (arXiv:2405.15362), section 3.
//
// `steps` must be ones for which there are such waits for every P.
Schedule RepeatBuildingBlock(absl::string_view kind,
                             const GenerateOptions& options,
                             const BlockSteps& steps);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_GENERATORS_BUILDING_BLOCK_H_
