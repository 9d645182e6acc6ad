#ifndef STAGECOACH_STAGE_WORKER_MODEL_PARAMETER_SET_H_
#define STAGECOACH_STAGE_WORKER_MODEL_PARAMETER_SET_H_

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "job/job_spec.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/kernels/linear.h"
#include "stage_worker/model/stage_model.h"

namespace stagecoach::worker {

using Initialiser = std::function<void(at::Tensor& value)>;

Initialiser Constant(double value);
// Values that depend on seed and name alone. Drawn on the CPU whatever the
// device, so that they are the same.
Initialiser Normal(double deviation, int64_t seed, const std::string& name);

// As kernels take it; null: there is none.
inline kernels::Parameter KernelParameter(const StageParameter* parameter) {
  if (parameter == nullptr) return {};
  return {&parameter->value, &parameter->gradient};
}

// The parameters of one stage, as job::StageParameters lists them: names,
// shapes, order and what is tied. A tied head is a second leaf, named
// "lm_head.weight", that begins with the embedding's values. Addresses of
// parameters stay. Single-executor.
class ParameterSet {
 public:
  // `initialiser_of` gets the name that a checkpoint stores.
  ParameterSet(
      const job::JobSpec& spec, const StageAssignment& stage,
      const std::function<Initialiser(const std::string&)>& initialiser_of);

  // nullptr if the stage has none of that name.
  StageParameter* Find(absl::string_view name);
  // Throws std::out_of_range if the stage has none of that name.
  StageParameter* Get(absl::string_view name);
  std::vector<StageParameter*> All();
  // Whether any of those whose names begin so has a gradient.
  bool AnyTrains(absl::string_view beginning) const;

 private:
  std::deque<StageParameter> parameters_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MODEL_PARAMETER_SET_H_
