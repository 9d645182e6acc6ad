#ifndef STAGECOACH_JOB_LEARNING_RATE_H_
#define STAGECOACH_JOB_LEARNING_RATE_H_

#include <cstdint>

#include "job/job_spec.h"

namespace stagecoach::job {

// Learning rate of step `step` (from 0), as docs/job_spec.md states it; past
// the last step, what the last one of the schedule tends to.
double LearningRateAt(const TrainingSpec& training, int64_t step);

// min(1, clip / (norm + 1e-6)); 1 if clip is 0. The norm must be finite: a step
// whose norm is not is skipped, not clipped.
double ClipFactor(double gradient_clip, double global_norm);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_LEARNING_RATE_H_
