#ifndef STAGECOACH_JOB_SPLIT_H_
#define STAGECOACH_JOB_SPLIT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace stagecoach::job {

// The layers [begin, end) that a stage holds. The first stage also holds the
// embeddings, the last one the final norm and the head.
struct StageLayers {
  int64_t begin = 0;
  int64_t end = 0;
};

// S contiguous slices that cover 0..layers exactly once: as `split` says, else
// as even as possible (the earlier stages take the remainder). Each has at
// least one layer. kInvalidArgument names the layer that is lost or repeated.
absl::StatusOr<std::vector<StageLayers>> SplitLayers(
    int64_t layers, int64_t stages, const std::vector<int64_t>& split);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_SPLIT_H_
