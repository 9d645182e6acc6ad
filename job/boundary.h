#ifndef STAGECOACH_JOB_BOUNDARY_H_
#define STAGECOACH_JOB_BOUNDARY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/tensor_descriptor.h"
#include "job/job_spec.h"

namespace stagecoach::job {

// The tensors that one microbatch puts on a wire behind a stage, in this order,
// each with the microbatch's rows in front. Of those of floating-point type
// gradients come back.
struct Boundary {
  std::vector<TensorDescriptor> tensors;

  // In one block of memory each tensor begins at a multiple of 64 bytes, as
  // transports lay them out.
  size_t OffsetOf(size_t tensor) const;
  int64_t bytes() const;
  std::string ToString() const;  // "float32[4, 128, 256], int64[4, 128]"
};

// [microbatch_size, sequence_length, hidden] in the type that the job computes
// in; or as model.boundary or model.boundaries say. Needs a spec whose
// boundaries can be parsed.
Boundary BoundaryOf(const JobSpec& spec);

// One row of a tensor, as model.boundaries has it: "float32[128, 256]".
// kInvalidArgument with what is wrong.
absl::StatusOr<TensorDescriptor> ParseBoundaryRow(absl::string_view text);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_BOUNDARY_H_
