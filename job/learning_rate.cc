#include "job/learning_rate.h"

#include <algorithm>
#include <cmath>

namespace stagecoach::job {
namespace {

constexpr double kPi = 3.14159265358979323846;

// How much of the way after warm-up is done: 0 at its end, 1 after all steps.
double Progress(const TrainingSpec& training, int64_t step) {
  const int64_t length = training.steps - training.warmup_steps;
  if (length <= 0) return 1;
  const double done = static_cast<double>(step - training.warmup_steps);
  return std::min(1.0, done / static_cast<double>(length));
}

}  // namespace

double LearningRateAt(const TrainingSpec& training, int64_t step) {
  const double rate = training.learning_rate;
  if (step < training.warmup_steps) {
    return rate * static_cast<double>(step + 1) /
           static_cast<double>(training.warmup_steps);
  }
  const double least = training.minimum_learning_rate;
  switch (training.learning_rate_schedule) {
    case LearningRateSchedule::kConstant:
      break;
    case LearningRateSchedule::kLinear:
      return rate - (rate - least) * Progress(training, step);
    case LearningRateSchedule::kCosine:
      return least + (rate - least) / 2 *
                         (1 + std::cos(kPi * Progress(training, step)));
  }
  return rate;
}

double ClipFactor(double gradient_clip, double global_norm) {
  if (gradient_clip == 0) return 1;
  return std::min(1.0, gradient_clip / (global_norm + 1e-6));
}

}  // namespace stagecoach::job
