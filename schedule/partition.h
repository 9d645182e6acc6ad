#ifndef STAGECOACH_SCHEDULE_PARTITION_H_
#define STAGECOACH_SCHEDULE_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace stagecoach::schedule {

// Layers of a model cut into `stages` contiguous slices.
struct PartitionOptions {
  std::vector<double> costs;  // by layer, >= 0, any unit
  int stages = 1;
  // Bytes by layer and the most that a stage may have; empty or 0: no limit.
  std::vector<int64_t> bytes;
  int64_t limit_bytes = 0;
};

struct Partition {
  std::vector<int> layers;  // of each stage, at least 1; adds up to all
  double largest_cost = 0;
  double even_cost = 0;  // largest cost of an even split, larger stages first
};

// The partition whose most expensive stage is cheapest; of several, one with
// the least sum of squared stage costs, then the one with the larger first
// stages. Exact: dynamic programming, O(layers^2 * stages).
// kInvalidArgument for fewer layers than stages, or costs that are none;
// kResourceExhausted if no partition keeps the limit.
absl::StatusOr<Partition> PartitionLayers(const PartitionOptions& options);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_PARTITION_H_
