#include "stage_worker/engine/torch/saved_tensors.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <deque>
#include <memory>
#include <unordered_set>
#include <utility>

#include "stage_worker/engine/torch/torch_tensor.h"

namespace stagecoach::worker {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;

std::vector<at::Tensor> SavedTensorsOf(const std::shared_ptr<Node>& node) {
  namespace visitor = torch::dynamo::autograd;
  visitor::AutogradCompilerCall call(visitor::SizeInput::DynType::STATIC);
  visitor::NodeCall node_call(0, node);
  visitor::CompiledNodeArgs arguments(call, node_call);
  try {
    node->compiled_args(arguments);
  } catch (const c10::Error&) {
    // No visitor, or the tensors are released already: what was listed so far
    // is all there is to know.
  }
  return call.tensor_args.inputs;
}

bool Saved(const std::shared_ptr<Node>& node, const void* storage) {
  for (const at::Tensor& tensor : SavedTensorsOf(node)) {
    if (!tensor.defined() || !tensor.has_storage()) continue;
    if (tensor.storage().data() == storage) return true;
  }
  return false;
}

// Calls `visit` with each node behind the roots, breadth first, until it
// returns false.
template <typename Visit>
void Walk(const std::vector<Edge>& roots, Visit visit) {
  std::deque<std::shared_ptr<Node>> waiting;
  std::unordered_set<const Node*> seen;
  const auto see = [&waiting, &seen](const Edge& edge) {
    if (edge.function != nullptr && seen.insert(edge.function.get()).second) {
      waiting.push_back(edge.function);
    }
  };
  for (const Edge& root : roots) see(root);
  while (!waiting.empty()) {
    const std::shared_ptr<Node> node = waiting.front();
    waiting.pop_front();
    if (!visit(node)) return;
    for (const Edge& next : node->next_edges()) see(next);
  }
}

}  // namespace

std::vector<SavedTensor> SavedTensors(const std::vector<Edge>& roots) {
  std::vector<SavedTensor> saved;
  std::unordered_set<const void*> seen;
  Walk(roots, [&](const std::shared_ptr<Node>& node) {
    for (const at::Tensor& tensor : SavedTensorsOf(node)) {
      if (!tensor.defined() || !tensor.has_storage()) continue;
      SavedTensor entry;
      entry.storage = StorageIdentity(tensor);
      if (entry.storage == nullptr || !seen.insert(entry.storage).second) {
        continue;
      }
      entry.op = node->name();
      entry.bytes = static_cast<int64_t>(tensor.storage().nbytes());
      entry.own = InOwnMemory(tensor);
      saved.push_back(std::move(entry));
    }
    return true;
  });
  return saved;
}

std::vector<at::Tensor> TensorsSavedBehind(const std::vector<Edge>& roots) {
  std::vector<at::Tensor> saved;
  Walk(roots, [&saved](const std::shared_ptr<Node>& node) {
    for (at::Tensor& tensor : SavedTensorsOf(node)) {
      if (tensor.defined()) saved.push_back(std::move(tensor));
    }
    return true;
  });
  return saved;
}

std::string OpThatSaved(const std::vector<Edge>& roots, const void* storage) {
  std::string op;
  Walk(roots, [&](const std::shared_ptr<Node>& node) {
    if (Saved(node, storage)) op = node->name();
    return op.empty();
  });
  return op;
}

}  // namespace stagecoach::worker
