#include "stage_worker/copies/state_layout.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach::worker {
namespace {

using States = std::vector<std::shared_ptr<const StageState>>;

template <typename Visit>
void ForEachTensor(const StageState& state, const Visit& visit) {
  for (const StateTensor& tensor : state.parameters) visit(tensor, false);
  for (const StateTensor& tensor : state.optimizer) visit(tensor, true);
}

absl::Status CopyTensor(const StateTensor& tensor,
                        const TensorDescriptor& descriptor, void* data) {
  if (!(tensor.descriptor == descriptor)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the copy of ", tensor.name, " is ", tensor.descriptor.ToString(),
        ", not ", descriptor.ToString()));
  }
  std::memcpy(data, tensor.data.get(), descriptor.bytes());
  return absl::OkStatus();
}

StateReader ReaderOf(States states,
                     std::vector<StateTensor> StageState::*tensors) {
  return [states = std::move(states), tensors](
             const std::string& name, const TensorDescriptor& descriptor,
             void* data) -> absl::Status {
    for (const auto& state : states) {
      for (const StateTensor& tensor : (*state).*tensors) {
        if (tensor.name == name) return CopyTensor(tensor, descriptor, data);
      }
    }
    return absl::NotFoundError(
        absl::StrCat("no copied stage has a tensor ", name));
  };
}

}  // namespace

int64_t StateLayout::bytes() const {
  int64_t sum = 0;
  for (const Tensor& tensor : tensors) {
    sum += static_cast<int64_t>(tensor.descriptor.bytes());
  }
  return sum;
}

absl::Status StateLayout::Validate() const {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int64_t sum = 0;
  bool optimizer = false;
  std::set<std::pair<bool, absl::string_view>> names;
  for (const Tensor& tensor : tensors) {
    if (!tensor.descriptor.IsValid()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", tensor.name,
          " of a copied stage cannot be: ", tensor.descriptor.ToString()));
    }
    const auto bytes = static_cast<int64_t>(tensor.descriptor.bytes());
    if (bytes > kMost - sum) {
      return absl::InvalidArgumentError("a copied stage has too many bytes");
    }
    sum += bytes;
    if (optimizer && !tensor.optimizer) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameter ", tensor.name, " stands behind the optimizer's tensors"));
    }
    optimizer = tensor.optimizer;
    if (!names.emplace(optimizer, tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("a copied stage has tensor ", tensor.name, " twice"));
    }
  }
  return absl::OkStatus();
}

StateLayout LayoutOf(const StageState& state) {
  StateLayout layout;
  ForEachTensor(state, [&layout](const StateTensor& tensor, bool optimizer) {
    layout.tensors.push_back({tensor.name, tensor.descriptor, optimizer});
  });
  return layout;
}

std::string ReadState(const StageState& state, int64_t offset, int64_t size) {
  std::string piece;
  int64_t begin = 0;  // of the tensor in the run
  const int64_t end = size > std::numeric_limits<int64_t>::max() - offset
                          ? std::numeric_limits<int64_t>::max()
                          : offset + size;
  ForEachTensor(state, [&](const StateTensor& tensor, bool /*optimizer*/) {
    const auto bytes = static_cast<int64_t>(tensor.descriptor.bytes());
    const int64_t from = std::max(offset, begin);
    const int64_t to = std::min(end, begin + bytes);
    if (from < to) {
      piece.append(static_cast<const char*>(tensor.data.get()) + (from - begin),
                   static_cast<size_t>(to - from));
    }
    begin += bytes;
  });
  return piece;
}

StageState StateOf(StageIndex stage, const StateLayout& layout,
                   const std::shared_ptr<void>& block) {
  StageState state;
  state.stage.stage = stage;
  size_t offset = 0;
  for (const StateLayout::Tensor& tensor : layout.tensors) {
    StateTensor entry;
    entry.name = tensor.name;
    entry.descriptor = tensor.descriptor;
    entry.data = std::shared_ptr<const void>(
        block, static_cast<const char*>(block.get()) + offset);
    offset += tensor.descriptor.bytes();
    (tensor.optimizer ? state.optimizer : state.parameters)
        .push_back(std::move(entry));
  }
  return state;
}

StateReader ParameterReader(States states) {
  return ReaderOf(std::move(states), &StageState::parameters);
}

StateReader OptimizerReader(States states) {
  return ReaderOf(std::move(states), &StageState::optimizer);
}

}  // namespace stagecoach::worker
