#ifndef STAGECOACH_JOB_MODEL_SHAPE_H_
#define STAGECOACH_JOB_MODEL_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor_descriptor.h"
#include "job/job_spec.h"
#include "job/split.h"

namespace stagecoach::job {

// The model's config: its checkpoint's, or what follows from the sizes. GPT-2:
// an MLP 4 times as wide, sequence_length positions. Llama: an MLP of 8/3 the
// width, rounded up to a multiple of 256, and no grouped heads. Needs sizes
// that are at least 1.
ModelConfig ConfigOf(const JobSpec& spec);

// One parameter of a stage: Hugging Face's name and shape. GPT-2's linear
// layers are stored [in, out], Llama's [out, in].
struct ParameterShape {
  std::string name;
  std::vector<int64_t> shape;
  // The head's leaf of a tied embedding: it takes memory, but is not counted
  // as a parameter of the model. `name` is the owner's.
  bool tied_copy = false;

  int64_t elements() const;
};

// The parameters of one stage, in the model's order: embeddings, blocks, final
// norm, head. Needs a valid spec.
std::vector<ParameterShape> StageParameters(const JobSpec& spec,
                                            const StageLayers& layers);

// How many parameters of the model come before a stage's first.
int64_t ParametersBefore(const JobSpec& spec, const StageLayers& layers);

// Elements of a stage's parameters, tied copies included: times 4 they are the
// bytes that the stage's weights take.
int64_t StageParameterCount(const JobSpec& spec, const StageLayers& layers);

// Whether training.freeze names the parameter that a checkpoint stores so.
bool IsFrozen(const TrainingSpec& training, const std::string& name);

// Whether the gradients of a tied embedding's two leaves are added up in every
// step: it is tied, and not frozen.
bool SumsTiedGradients(const JobSpec& spec);

// Parameters of the whole model; tied ones once.
int64_t ModelParameterCount(const JobSpec& spec);

// The type of activations and of what crosses stages, and in which matrix
// products are computed.
DType ComputeTypeOf(Precision precision);

// The head's output for one microbatch:
// float32[microbatch_size, sequence_length, vocabulary].
TensorDescriptor LogitsOf(const JobSpec& spec);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_MODEL_SHAPE_H_
