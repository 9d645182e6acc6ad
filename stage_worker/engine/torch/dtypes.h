#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_DTYPES_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_DTYPES_H_

#include <c10/core/ScalarType.h>

#include "base/tensor_descriptor.h"

namespace stagecoach::worker {

// Throws std::invalid_argument for element types without a DType.
DType DTypeOf(at::ScalarType type);
at::ScalarType ScalarTypeOf(DType dtype);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_DTYPES_H_
