#ifndef STAGECOACH_STAGE_WORKER_COPIES_STATE_LAYOUT_H_
#define STAGECOACH_STAGE_WORKER_COPIES_STATE_LAYOUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "base/tensor_descriptor.h"
#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::worker {

// What a stage's state looks like as one run of bytes: its parameters, then its
// optimizer's tensors, one behind the other without gaps.
struct StateLayout {
  struct Tensor {
    std::string name;
    TensorDescriptor descriptor;
    bool optimizer = false;
  };
  std::vector<Tensor> tensors;

  int64_t bytes() const;
  // Of a layout from outside, kInvalidArgument: a tensor that cannot be, a name
  // twice, a parameter behind an optimizer's tensor, more than fits an int64.
  absl::Status Validate() const;
};

StateLayout LayoutOf(const StageState& state);

// Bytes [offset, offset + size) of the run, cut off at its end.
std::string ReadState(const StageState& state, int64_t offset, int64_t size);

// The state whose run of bytes is `block`, which it shares. The layout is
// valid.
StageState StateOf(StageIndex stage, const StateLayout& layout,
                   const std::shared_ptr<void>& block);

// Tensors of several stages by name, as engines ask for them. Shares them.
StateReader ParameterReader(
    std::vector<std::shared_ptr<const StageState>> states);
StateReader OptimizerReader(
    std::vector<std::shared_ptr<const StageState>> states);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_COPIES_STATE_LAYOUT_H_
