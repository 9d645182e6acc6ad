#include "stage_worker/engine/torch/autograd_edges.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "stage_worker/engine/torch/saved_tensors.h"
#include "stage_worker/engine/torch/split_backward.h"
#include "stage_worker/engine/torch/torch_tensor.h"
#include "stage_worker/kernels/block_node.h"

namespace stagecoach::worker {
namespace {

namespace autograd = torch::autograd;

// The far end of a stage's graph: takes the gradient of one input and holds
// nothing of the input itself.
class InputBoundary final : public autograd::Node {
 public:
  explicit InputBoundary(const at::Tensor& input)
      : sizes_(input.sizes().vec()), options_(input.options()) {
    add_input_metadata(input);
  }

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    gradient_ = std::move(gradients[0]);
    return {};
  }
  std::string name() const override { return "StageInput"; }
  // Saves nothing; see OpThatSaved.
  void compiled_args(
      torch::dynamo::autograd::CompiledNodeArgs& /*args*/) const override {}

  at::Tensor TakeGradient() {
    if (!gradient_.defined()) return at::zeros(sizes_, options_);
    return std::move(gradient_);
  }

 private:
  const std::vector<int64_t> sizes_;
  const at::TensorOptions options_;
  at::Tensor gradient_;
};

// An output that carries a gradient. The edge is empty where the model cut it
// off from autograd: its gradient is then received and ignored.
struct KeptOutput {
  autograd::Edge edge;
  std::vector<int64_t> sizes;
  at::ScalarType type = at::kFloat;
};

void CheckFits(const KeptOutput& output, const at::Tensor& gradient) {
  if (gradient.sizes() == at::IntArrayRef(output.sizes) &&
      gradient.scalar_type() == output.type) {
    return;
  }
  throw std::invalid_argument(absl::StrCat(
      "the gradient is ", c10::toString(gradient.scalar_type()), "[",
      absl::StrJoin(gradient.sizes(), ", "), "], the output was ",
      c10::toString(output.type), "[", absl::StrJoin(output.sizes, ", "), "]"));
}

}  // namespace

struct MicrobatchGraph::State {
  struct Roots {
    autograd::edge_list edges;
    autograd::variable_list gradients;
  };

  void CheckFit(const std::vector<at::Tensor>& gradients) const;
  // Where a backward starts; the outputs are gone then.
  Roots TakeRoots(std::vector<at::Tensor> output_gradients);
  // From which all is reached that is held for what is left of the backward.
  autograd::edge_list HoldingEdges() const;

  std::vector<KeptOutput> outputs;
  std::vector<std::shared_ptr<InputBoundary>> inputs;
  SplitBackward split;
};

MicrobatchGraph::MicrobatchGraph() : state_(std::make_unique<State>()) {}
MicrobatchGraph::~MicrobatchGraph() = default;
MicrobatchGraph::MicrobatchGraph(MicrobatchGraph&&) noexcept = default;
MicrobatchGraph& MicrobatchGraph::operator=(MicrobatchGraph&&) noexcept =
    default;

at::Tensor MicrobatchGraph::MarkInput(const at::Tensor& received) {
  at::Tensor input = received.detach();
  if (!input.is_floating_point()) return input;
  auto boundary = std::make_shared<InputBoundary>(input);
  autograd::impl::set_gradient_edge(input, autograd::Edge(boundary, 0));
  state_->inputs.push_back(std::move(boundary));
  return input;
}

void MicrobatchGraph::KeepOutput(const at::Tensor& output) {
  if (!output.is_floating_point()) return;
  KeptOutput kept;
  if (output.requires_grad()) kept.edge = autograd::impl::gradient_edge(output);
  kept.sizes = output.sizes().vec();
  kept.type = output.scalar_type();
  state_->outputs.push_back(std::move(kept));
}

void MicrobatchGraph::State::CheckFit(
    const std::vector<at::Tensor>& gradients) const {
  if (gradients.size() != outputs.size()) {
    throw std::invalid_argument(absl::StrCat(gradients.size(),
                                             " output gradients for ",
                                             outputs.size(), " outputs"));
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    CheckFits(outputs[i], gradients[i]);
  }
}

MicrobatchGraph::State::Roots MicrobatchGraph::State::TakeRoots(
    std::vector<at::Tensor> output_gradients) {
  CheckFit(output_gradients);
  Roots roots;
  for (size_t i = 0; i < output_gradients.size(); ++i) {
    if (!outputs[i].edge.is_valid()) continue;
    roots.edges.push_back(std::move(outputs[i].edge));
    roots.gradients.push_back(std::move(output_gradients[i]));
  }
  outputs.clear();
  return roots;
}

std::vector<at::Tensor> MicrobatchGraph::Backward(
    std::vector<at::Tensor> output_gradients) {
  State::Roots roots = state_->TakeRoots(std::move(output_gradients));
  if (!roots.edges.empty()) {
    // The engine adds in place into a gradient that nobody else holds.
    // `roots` holds these until it is done: a received one is not written to,
    // and its slot not handed on as the gradient of an input.
    autograd::Engine::get_default_engine().execute(
        roots.edges, roots.gradients, /*keep_graph=*/false,
        /*create_graph=*/false, /*accumulate_grad=*/true);
  }
  std::vector<at::Tensor> input_gradients;
  for (const auto& input : state_->inputs) {
    input_gradients.push_back(input->TakeGradient());
  }
  state_->inputs.clear();
  return input_gradients;
}

std::vector<at::Tensor> MicrobatchGraph::BackwardInput(
    std::vector<at::Tensor> output_gradients) {
  State::Roots roots = state_->TakeRoots(std::move(output_gradients));
  autograd::edge_list inputs;
  for (const auto& input : state_->inputs) inputs.emplace_back(input, 0);
  std::vector<at::Tensor> input_gradients = state_->split.RunInput(
      std::move(roots.edges), std::move(roots.gradients), inputs);
  for (size_t i = 0; i < input_gradients.size(); ++i) {
    if (input_gradients[i].defined()) continue;
    input_gradients[i] = state_->inputs[i]->TakeGradient();
  }
  state_->inputs.clear();
  return input_gradients;
}

void MicrobatchGraph::BackwardWeight() { state_->split.RunWeight(); }

autograd::edge_list MicrobatchGraph::State::HoldingEdges() const {
  autograd::edge_list roots = split.edges();
  for (const auto& block : split.blocks()) roots.emplace_back(block, 0);
  for (const KeptOutput& output : outputs) roots.push_back(output.edge);
  return roots;
}

std::vector<at::Tensor> MicrobatchGraph::HeldTensors() const {
  std::vector<at::Tensor> held = TensorsSavedBehind(state_->HoldingEdges());
  const std::vector<at::Tensor>& gradients = state_->split.gradients();
  held.insert(held.end(), gradients.begin(), gradients.end());
  return held;
}

std::vector<SavedTensor> MicrobatchGraph::Saved() const {
  std::vector<SavedTensor> saved = SavedTensors(state_->HoldingEdges());
  // Between the halves of a backward also gradients wait.
  for (size_t i = 0; i < state_->split.gradients().size(); ++i) {
    const at::Tensor& gradient = state_->split.gradients()[i];
    const void* const storage = StorageIdentity(gradient);
    const bool known = std::any_of(
        saved.begin(), saved.end(),
        [storage](const SavedTensor& s) { return s.storage == storage; });
    if (known || storage == nullptr) continue;
    SavedTensor entry;
    entry.op =
        absl::StrCat(state_->split.edges()[i].function->name(), " gradient");
    entry.storage = storage;
    entry.bytes = static_cast<int64_t>(gradient.storage().nbytes());
    entry.own = InOwnMemory(gradient);
    saved.push_back(std::move(entry));
  }
  return saved;
}

std::string MicrobatchGraph::OpThatSaved(const void* storage) const {
  autograd::edge_list roots;
  for (const KeptOutput& output : state_->outputs) {
    roots.push_back(output.edge);
  }
  return worker::OpThatSaved(roots, storage);
}

}  // namespace stagecoach::worker
