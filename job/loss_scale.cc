#include "job/loss_scale.h"

#include <algorithm>

namespace stagecoach::job {
namespace {

// Far below float32's largest number, so that the scale itself is finite.
constexpr double kMost = 0x1p60;

}  // namespace

LossScale::LossScale(const TrainingSpec& training)
    : changes_(training.precision == Precision::kFloat16),
      growth_steps_(training.loss_scale_growth_steps) {
  if (changes_) state_.value = training.initial_loss_scale;
}

void LossScale::Record(bool skipped) {
  if (!changes_) return;
  if (skipped) {
    state_.good_steps = 0;
    state_.value = std::max(1.0, state_.value / 2);
    return;
  }
  if (++state_.good_steps < growth_steps_) return;
  state_.good_steps = 0;
  state_.value = std::min(kMost, 2 * state_.value);
}

bool IsValid(const LossScaleState& state) {
  return state.value >= 1 && state.value <= kMost && state.good_steps >= 0;
}

}  // namespace stagecoach::job
