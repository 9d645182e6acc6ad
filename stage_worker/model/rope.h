#ifndef STAGECOACH_STAGE_WORKER_MODEL_ROPE_H_
#define STAGECOACH_STAGE_WORKER_MODEL_ROPE_H_

#include <cstdint>
#include <vector>

#include "job/model_config.h"

namespace stagecoach::worker {

// The rotation of a Llama's queries and keys: at position p, the pair i turns
// by p times the i-th frequency; cosine and sine are multiplied by `scale`.
struct RotaryFrequencies {
  std::vector<float> frequencies;  // half the head's width
  double scale = 1;
};

// As transformers computes them, for sequences of this length. Sources: RoPE,
// Su et al. 2021; kLinear, Chen et al. 2023 (position interpolation); kDynamic,
// the "NTK-aware" base of bloc97 and emozilla; kLlama3, Llama 3.1's wave-length
// bands; kYarn, Peng et al. 2023 (YaRN), section 3.2.
RotaryFrequencies RotaryFrequenciesOf(const job::ModelConfig& config,
                                      int64_t sequence_length);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MODEL_ROPE_H_
