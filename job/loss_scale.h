#ifndef STAGECOACH_JOB_LOSS_SCALE_H_
#define STAGECOACH_JOB_LOSS_SCALE_H_

#include <cstdint>
#include <optional>

#include "job/job_spec.h"

namespace stagecoach::job {

struct LossScaleState {
  double value = 1;        // from 1 to 2^60
  int64_t good_steps = 0;  // in a row, since it was changed
};
// Whether one from outside can have been.
bool IsValid(const LossScaleState& state);

// What a loss's gradient is multiplied by, so that small gradients do not
// vanish in float16 (Micikevicius et al., Mixed Precision Training, 2017,
// section 3.2). It is halved by each step that is skipped, since a gradient
// overflowed, to no less than 1, and doubled after
// `training.loss_scale_growth_steps` steps in a row that were not. So it is a
// function of the outcomes of the steps before: whoever knows those can go on.
// Always 1 where training.precision is another. Thread-compatible.
class LossScale {
 public:
  explicit LossScale(const TrainingSpec& training);

  // Of the next step.
  double value() const { return state_.value; }
  // Absent where it is always 1: what a checkpoint keeps.
  std::optional<LossScaleState> state() const {
    if (!changes_) return std::nullopt;
    return state_;
  }
  // Goes on from there; nothing where it is always 1.
  void Restore(const LossScaleState& state) {
    if (changes_) state_ = state;
  }
  // The outcome of a step, in order.
  void Record(bool skipped);

 private:
  bool changes_;
  int64_t growth_steps_;
  LossScaleState state_;
};

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_LOSS_SCALE_H_
