#ifndef STAGECOACH_JOB_MODEL_SHAPE_H_
#define STAGECOACH_JOB_MODEL_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor_descriptor.h"
#include "job/job_spec.h"
#include "job/split.h"

namespace stagecoach::job {

// One parameter of a stage: Hugging Face's name and shape (its linear layers
// are stored [in, out]).
struct ParameterShape {
  std::string name;
  std::vector<int64_t> shape;
  // The head's leaf of a tied embedding: it takes memory, but is not counted
  // as a parameter of the model. `name` is the owner's.
  bool tied_copy = false;

  int64_t elements() const;
};

// The parameters of one stage of a GPT-2 of these sizes, in the model's order:
// wte, wpe (sequence_length rows), h.N.*, ln_f, lm_head. Needs a valid spec.
std::vector<ParameterShape> StageParameters(const JobSpec& spec,
                                            const StageLayers& layers);

// Elements of a stage's parameters, tied copies included: times 4 they are the
// bytes that the stage's weights take.
int64_t StageParameterCount(const JobSpec& spec, const StageLayers& layers);

// Parameters of the whole model; tied ones once.
int64_t ModelParameterCount(const JobSpec& spec);

// What one microbatch puts on the wire behind a stage, and the gradient coming
// back: float32[microbatch_size, sequence_length, hidden].
TensorDescriptor BoundaryOf(const JobSpec& spec);

// The head's output for one microbatch:
// float32[microbatch_size, sequence_length, vocabulary].
TensorDescriptor LogitsOf(const JobSpec& spec);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_MODEL_SHAPE_H_
