#ifndef STAGECOACH_JOB_MEMORY_PROFILE_H_
#define STAGECOACH_JOB_MEMORY_PROFILE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/memory_category.h"

namespace stagecoach::job {

// Bytes in all and by category. As a peak each figure is the greatest by
// itself, so the categories of a peak may add up to more than its total.
struct CategoryBytes {
  int64_t total = 0;
  std::array<int64_t, kMemoryCategories> categories{};

  // Adds to one category and to the total.
  void Add(MemoryCategory category, int64_t bytes);
  int64_t Of(MemoryCategory category) const {
    return categories[static_cast<size_t>(category)];
  }
  CategoryBytes& operator+=(const CategoryBytes& other);
  CategoryBytes& operator-=(const CategoryBytes& other);
  // Lifts each figure to at least `other`'s.
  void RaiseTo(const CategoryBytes& other);

  friend CategoryBytes operator+(CategoryBytes a, const CategoryBytes& b) {
    return a += b;
  }
  friend CategoryBytes operator-(CategoryBytes a, const CategoryBytes& b) {
    return a -= b;
  }
  friend bool operator==(const CategoryBytes& a, const CategoryBytes& b) {
    return a.total == b.total && a.categories == b.categories;
  }
};

// One microbatch through one stage, measured on the worker that holds it with
// its own engine. Peaks are over what was held right before the action. Bytes
// of received tensors are left out: they are the receive pool's, or another
// stage's output.
struct StageMemory {
  StageIndex stage;
  CategoryBytes forward_peak;
  CategoryBytes retained;  // by the graph, once the output is dropped
  CategoryBytes output;    // given back by dropping it; 0 if an op saved it
  bool keeps_input = false;

  CategoryBytes backward_peak;
  CategoryBytes backward_output;  // the input's gradient

  // The backward in two halves, where the engine can.
  bool splits = false;
  CategoryBytes backward_input_peak;
  CategoryBytes backward_input_output;
  CategoryBytes kept_for_weight;  // after the first half
  bool keeps_input_for_weight = false;
  bool keeps_gradient_for_weight = false;
  CategoryBytes backward_weight_peak;

  // A forward that keeps nothing.
  CategoryBytes evaluation_peak;
  CategoryBytes evaluation_output;
};

struct WorkerMemoryProfile {
  // Between two steps, without receive pools: parameters, gradients, optimizer
  // state, and what the kernels keep for good.
  CategoryBytes resident;
  CategoryBytes norms_peak;         // after the list of a step
  CategoryBytes update_peak;        // of the optimizer
  int64_t state_copy_bytes = 0;     // what a checkpoint is written from
  int64_t tied_gradient_bytes = 0;  // the copy that is sent; 0: not tied
  std::vector<StageMemory> stages;  // ascending
};

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_MEMORY_PROFILE_H_
