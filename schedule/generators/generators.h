#ifndef STAGECOACH_SCHEDULE_GENERATORS_GENERATORS_H_
#define STAGECOACH_SCHEDULE_GENERATORS_GENERATORS_H_

#include "schedule/generator.h"

namespace stagecoach::schedule {

// One function per kind, each in a file of its own that cites where the order
// comes from. A new kind is such a file, a line here, and a line in the table
// of generator.cc; the conformance test then runs over it.
Generator GPipe();
Generator OneForwardOneBackward();
Generator Eager1F1B();
Generator Interleaved();
Generator LoopedBfs();
Generator ZbH1();
Generator ZbH2();
Generator Zbv();
Generator VHalf();
Generator VMin();
Generator DualPipeV();
Generator ForwardOnly();

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_GENERATORS_GENERATORS_H_
