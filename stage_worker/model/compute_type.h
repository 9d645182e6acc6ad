#ifndef STAGECOACH_STAGE_WORKER_MODEL_COMPUTE_TYPE_H_
#define STAGECOACH_STAGE_WORKER_MODEL_COMPUTE_TYPE_H_

#include <ATen/core/Tensor.h>

#include "job/job_spec.h"
#include "stage_worker/model/stage_model.h"

namespace stagecoach::worker {

// The type of activations, and in which matrix products are computed.
at::ScalarType ScalarTypeOf(job::Precision precision);

// The parameter as matrix products take it: its float32 value, or, where the
// job computes in a shorter type, the copy that the engine keeps in that type.
// The gradient of the copy goes to the value, in float32. The copy is the
// engine's: no microbatch makes or keeps one of its own, as a cast would.
at::Tensor InComputeType(const StageParameter& parameter);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MODEL_COMPUTE_TYPE_H_
