#ifndef STAGECOACH_SCHEDULE_VERIFIER_SHAPE_H_
#define STAGECOACH_SCHEDULE_VERIFIER_SHAPE_H_

#include "schedule/verifier_view.h"

namespace stagecoach::schedule::verifier {

// Sizes, indices, lowered or not, edge plans: afterwards a View is safe.
void CheckShape(const Schedule& schedule, const VerifyOptions& options,
                Findings* findings);

}  // namespace stagecoach::schedule::verifier

#endif  // STAGECOACH_SCHEDULE_VERIFIER_SHAPE_H_
