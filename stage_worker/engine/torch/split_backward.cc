#include "stage_worker/engine/torch/split_backward.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "stage_worker/kernels/block_node.h"

namespace stagecoach::worker {
namespace {

namespace autograd = torch::autograd;
using autograd::Edge;
using autograd::edge_list;
using autograd::Node;

autograd::AccumulateGrad* Leaf(const Edge& edge) {
  return dynamic_cast<autograd::AccumulateGrad*>(edge.function.get());
}

// The graph behind some roots, and which of its nodes lead to the inputs.
class PathGraph {
 public:
  PathGraph(const edge_list& roots, const edge_list& inputs) {
    Collect(roots);
    MarkPath(inputs);
  }

  bool OnPath(const Node* node) const { return on_path_.count(node) > 0; }
  // Nodes on the path, the one created last first: the order in which a
  // backward reaches them.
  std::vector<std::shared_ptr<Node>> PathNodes() const {
    std::vector<std::shared_ptr<Node>> nodes;
    for (const auto& [raw, node] : nodes_) {
      if (OnPath(raw)) nodes.push_back(node);
    }
    std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) {
      return a->sequence_nr() > b->sequence_nr();
    });
    return nodes;
  }
  // Edges of a path node that lead to parameters.
  edge_list EdgesOff(const Node& node) const {
    edge_list off;
    for (const Edge& edge : node.next_edges()) {
      if (edge.is_valid() && !OnPath(edge.function.get())) off.push_back(edge);
    }
    return off;
  }

 private:
  void Collect(const edge_list& roots) {
    std::deque<Node*> queue;
    auto see = [&](const Edge& edge) {
      if (!edge.is_valid()) return;
      if (nodes_.emplace(edge.function.get(), edge.function).second) {
        queue.push_back(edge.function.get());
      }
    };
    for (const Edge& root : roots) see(root);
    while (!queue.empty()) {
      Node* const node = queue.front();
      queue.pop_front();
      for (const Edge& edge : node->next_edges()) {
        if (edge.is_valid()) parents_[edge.function.get()].push_back(node);
        see(edge);
      }
    }
  }
  void MarkPath(const edge_list& inputs) {
    std::deque<const Node*> queue;
    auto mark = [&](const Node* node) {
      if (on_path_.insert(node).second) queue.push_back(node);
    };
    for (const Edge& input : inputs) mark(input.function.get());
    while (!queue.empty()) {
      const auto parents = parents_.find(queue.front());
      queue.pop_front();
      if (parents == parents_.end()) continue;
      for (const Node* parent : parents->second) mark(parent);
    }
  }

  std::unordered_map<const Node*, std::shared_ptr<Node>> nodes_;
  std::unordered_map<const Node*, std::vector<const Node*>> parents_;
  std::unordered_set<const Node*> on_path_;
};

bool FeedsOnlyVectors(const edge_list& off) {
  return std::all_of(off.begin(), off.end(), [](const Edge& edge) {
    const autograd::AccumulateGrad* const leaf = Leaf(edge);
    return leaf != nullptr && leaf->variable.dim() <= 1;
  });
}

// What the engine is asked for in RunInput, in this order.
struct Captures {
  edge_list inputs;
  edge_list deferred;  // inputs of nodes that feed parameters
  edge_list at_once;   // leaves that are finished now

  edge_list All() const {
    edge_list all = inputs;
    all.insert(all.end(), deferred.begin(), deferred.end());
    all.insert(all.end(), at_once.begin(), at_once.end());
    return all;
  }
};

Captures ChooseCaptures(const PathGraph& graph, const edge_list& inputs) {
  Captures captures;
  captures.inputs = inputs;
  std::unordered_set<const Node*> seen;
  for (const std::shared_ptr<Node>& node : graph.PathNodes()) {
    const edge_list off = graph.EdgesOff(*node);
    if (off.empty()) continue;
    if (FeedsOnlyVectors(off)) {
      for (const Edge& edge : off) {
        if (seen.insert(edge.function.get()).second) {
          captures.at_once.push_back(edge);
        }
      }
      continue;
    }
    for (uint32_t i = 0; i < node->num_inputs(); ++i) {
      captures.deferred.emplace_back(node, i);
    }
  }
  return captures;
}

void AddToLeaf(const Edge& edge, const at::Tensor& gradient) {
  at::Tensor& sum = Leaf(edge)->variable.mutable_grad();
  if (sum.defined()) {
    sum.add_(gradient);
  } else {
    sum = gradient.clone();
  }
}

// Cuts the path, so that no deferred node reaches another one, and lets go of
// what only the path needed.
void Dismantle(const PathGraph& graph,
               const std::unordered_set<const Node*>& deferred) {
  for (const std::shared_ptr<Node>& node : graph.PathNodes()) {
    const bool keep = deferred.count(node.get()) > 0;
    for (Edge& edge : node->next_edges()) {
      if (!keep || graph.OnPath(edge.function.get())) edge = Edge();
    }
    if (!keep) node->release_variables();
  }
}

}  // namespace

std::vector<at::Tensor> SplitBackward::RunInput(
    edge_list roots, std::vector<at::Tensor> gradients,
    const edge_list& inputs) {
  if (inputs.empty()) {
    edges_ = std::move(roots);
    gradients_ = std::move(gradients);
    return {};
  }
  const PathGraph graph(roots, inputs);
  const Captures captures = ChooseCaptures(graph, inputs);
  for (const std::shared_ptr<Node>& node : graph.PathNodes()) {
    auto block = std::dynamic_pointer_cast<kernels::BlockNode>(node);
    if (block == nullptr) continue;
    block->DeferWeights();
    blocks_.push_back(std::move(block));
  }
  std::vector<at::Tensor> results =
      autograd::Engine::get_default_engine().execute(
          roots, gradients, /*keep_graph=*/true, /*create_graph=*/false,
          /*accumulate_grad=*/false, captures.All());
  const at::NoGradGuard no_grad;
  std::unordered_set<const Node*> deferred;
  for (size_t i = 0; i < captures.deferred.size(); ++i) {
    const at::Tensor& gradient = results[inputs.size() + i];
    if (!gradient.defined()) continue;
    edges_.push_back(captures.deferred[i]);
    gradients_.push_back(gradient);
    deferred.insert(captures.deferred[i].function.get());
  }
  for (size_t i = 0; i < captures.at_once.size(); ++i) {
    const at::Tensor& gradient =
        results[inputs.size() + captures.deferred.size() + i];
    if (gradient.defined()) AddToLeaf(captures.at_once[i], gradient);
  }
  Dismantle(graph, deferred);
  results.resize(inputs.size());
  return results;
}

void SplitBackward::RunWeight() {
  if (!edges_.empty()) {
    // One run over all deferred nodes: the parts of a parameter that several of
    // them feed are summed before they are accumulated, as in a full backward.
    autograd::Engine::get_default_engine().execute(
        edges_, gradients_, /*keep_graph=*/false, /*create_graph=*/false,
        /*accumulate_grad=*/true);
  }
  edges_.clear();
  gradients_.clear();
  for (const auto& block : std::exchange(blocks_, {})) block->RunWeights();
}

}  // namespace stagecoach::worker
