#include "job/loss_scale.h"

#include <algorithm>

namespace stagecoach::job {
namespace {

// Far below float32's largest number, so that the scale itself is finite.
constexpr double kMost = int64_t{1} << 60;

}  // namespace

LossScale::LossScale(const TrainingSpec& training)
    : changes_(training.precision == Precision::kFloat16),
      growth_steps_(training.loss_scale_growth_steps),
      value_(changes_ ? training.initial_loss_scale : 1) {}

void LossScale::Record(bool skipped) {
  if (!changes_) return;
  if (skipped) {
    good_steps_ = 0;
    value_ = std::max(1.0, value_ / 2);
    return;
  }
  if (++good_steps_ < growth_steps_) return;
  good_steps_ = 0;
  value_ = std::min(kMost, 2 * value_);
}

}  // namespace stagecoach::job
