#include "stage_worker/engine/torch/saved_tensors.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <deque>
#include <memory>
#include <unordered_set>

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

}  // namespace

std::string OpThatSaved(const std::vector<Edge>& roots, const void* storage) {
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
    if (Saved(node, storage)) return node->name();
    for (const Edge& next : node->next_edges()) see(next);
  }
  return "";
}

}  // namespace stagecoach::worker
