#ifndef STAGECOACH_STAGE_WORKER_GENERATE_SAMPLER_H_
#define STAGECOACH_STAGE_WORKER_GENERATE_SAMPLER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "stage_worker/data/shuffle.h"

namespace stagecoach::worker {

// Chooses tokens by their logits. The same seed and logits give the same
// choices on every machine. Thread-compatible.
class Sampler {
 public:
  struct Options {
    double temperature = 0;  // 0: the likeliest, of equals the first
    int64_t top_k = 0;       // only among the k likeliest; 0: all
    int64_t seed = 0;
  };

  explicit Sampler(const Options& options);

  // An index into `logits`, of which there is at least one. One whose logit is
  // not a number is never chosen unless all are.
  int64_t Choose(absl::Span<const float> logits);

 private:
  const Options options_;
  SplitMix64 generator_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_GENERATE_SAMPLER_H_
