#include <algorithm>
#include <cstddef>
#include <set>

#include "memory/accounting_allocator.h"
#include "stage_worker/engine/torch/torch_stage_engine.h"
#include "stage_worker/engine/torch/torch_tensor.h"

// Of TorchEngine: who holds what between two actions.
namespace stagecoach::worker {

namespace {

// Accounted as one: parameters are saved too.
bool IsActivation(const SavedTensor& saved) {
  if (!saved.own) return false;
  const memory::Tag tag = memory::AccountingAllocator::Process().TagOf(
      const_cast<void*>(saved.storage));
  return tag.category == memory::Category::kActivation;
}

}  // namespace

// With memory.recompute: inputs that another stage of this worker made.
void TorchEngine::ListKeptInputs(std::vector<HeldBytes>* held) const {
  for (const auto& [key, inputs] : kept_inputs_) {
    HeldBytes entry;
    entry.stage = key.first;
    entry.microbatch = key.second;
    entry.op = "StageInput";
    for (const at::Tensor& input : inputs) {
      SavedTensor saved;
      saved.storage = StorageIdentity(input);
      saved.bytes = static_cast<int64_t>(input.storage().nbytes());
      saved.own = InOwnMemory(input);
      if (!IsActivation(saved)) continue;
      ++entry.tensors;
      entry.bytes += saved.bytes;
    }
    if (entry.tensors > 0) held->push_back(std::move(entry));
  }
}

std::vector<HeldBytes> TorchEngine::ListHeld() {
  std::vector<HeldBytes> held;
  ListKeptInputs(&held);
  // An output that the next stage of this worker has saved is seen twice.
  std::set<const void*> seen;
  for (const auto& [key, graph] : graphs_) {
    std::map<std::string, HeldBytes> by_op;
    for (const SavedTensor& saved : graph.Saved()) {
      if (!IsActivation(saved) || !seen.insert(saved.storage).second) continue;
      HeldBytes& entry = by_op[saved.op];
      entry.stage = key.first;
      entry.microbatch = key.second;
      entry.op = saved.op;
      ++entry.tensors;
      entry.bytes += saved.bytes;
    }
    const size_t first = held.size();
    for (auto& [op, entry] : by_op) held.push_back(std::move(entry));
    std::stable_sort(held.begin() + static_cast<std::ptrdiff_t>(first),
                     held.end(), [](const HeldBytes& a, const HeldBytes& b) {
                       return a.bytes > b.bytes;
                     });
  }
  return held;
}

std::string TorchEngine::RetainingOp(StageIndex stage,
                                     MicrobatchIndex microbatch,
                                     const void* storage) {
  const auto found = graphs_.find(Key(stage, microbatch));
  if (found == graphs_.end() || storage == nullptr) return "";
  return found->second.OpThatSaved(storage);
}

}  // namespace stagecoach::worker
