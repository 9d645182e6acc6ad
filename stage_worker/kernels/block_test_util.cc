#include "stage_worker/kernels/block_test_util.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "stage_worker/kernels/block_node.h"

namespace stagecoach::worker::kernels {
namespace {

namespace autograd = torch::autograd;

at::Tensor Leaf(const at::Tensor& x) { return x.detach().requires_grad_(true); }

double Largest(const at::Tensor& x) {
  return x.numel() == 0 ? 0 : x.abs().max().item<double>();
}

}  // namespace

at::Tensor Drawn(at::IntArrayRef sizes, at::ScalarType type, double scale) {
  return (at::randn(sizes, at::kDouble) * scale).to(type);
}

TestParameters::TestParameters(const std::vector<std::vector<int64_t>>& shapes,
                               const std::vector<size_t>& around_one,
                               at::ScalarType type) {
  // More threads than cores would make a test wait for itself.
  at::set_num_threads(1);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const bool matrix = shapes[i].size() > 1;
    const double deviation =
        matrix ? 1 / std::sqrt(static_cast<double>(shapes[i].back())) : 0.3;
    at::Tensor value = Drawn(shapes[i], type, deviation);
    if (std::count(around_one.begin(), around_one.end(), i) > 0) value += 1;
    values_.push_back(value.requires_grad_(true));
    gradients_.push_back(at::zeros(shapes[i], type));
  }
}

void TestParameters::ZeroGradients() const {
  for (const at::Tensor& gradient : gradients_) {
    if (gradient.defined()) gradient.zero_();
  }
}

void TestParameters::SetFrozen(size_t i, bool frozen) {
  gradients_[i] = frozen
                      ? at::Tensor()
                      : at::zeros(values_[i].sizes(), values_[i].scalar_type());
}

at::Tensor ActivateWithAten(job::Activation activation, const at::Tensor& x) {
  switch (activation) {
    case job::Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case job::Activation::kGelu:
      return at::gelu(x);
    case job::Activation::kSilu:
      return at::silu(x);
    case job::Activation::kRelu:
      return at::relu(x);
  }
  return {};
}

at::Tensor AttendWithAten(const at::Tensor& query, const at::Tensor& key,
                          const at::Tensor& value, double scale,
                          int64_t window) {
  const int64_t sequence = query.size(2);
  at::Tensor seen = at::ones({sequence, sequence}, at::kBool).tril();
  if (window > 0) seen = seen.triu(1 - window);
  const at::Tensor scores = at::matmul(query, key.transpose(2, 3)) * scale;
  return at::matmul(
      at::softmax(scores.masked_fill(seen.logical_not(), -INFINITY), -1),
      value);
}

Outcome RunReference(const BlockFunction& reference,
                     const TestParameters& parameters, const at::Tensor& x,
                     const at::Tensor& dy) {
  Outcome outcome;
  const at::Tensor leaf = Leaf(x);
  outcome.y = reference(leaf);
  autograd::edge_list edges = {autograd::impl::gradient_edge(leaf)};
  for (size_t i = 0; i < parameters.size(); ++i) {
    edges.push_back(autograd::impl::gradient_edge(parameters.value(i)));
  }
  const auto gradients = autograd::Engine::get_default_engine().execute(
      {autograd::impl::gradient_edge(outcome.y)}, {dy}, /*keep_graph=*/false,
      /*create_graph=*/false, /*accumulate_grad=*/false, edges);
  outcome.dx = gradients[0];
  outcome.gradients.assign(gradients.begin() + 1, gradients.end());
  return outcome;
}

Outcome RunOwn(const BlockFunction& block, const TestParameters& parameters,
               const at::Tensor& x, const at::Tensor& dy, bool split,
               int times) {
  Outcome outcome;
  parameters.ZeroGradients();
  for (int time = 0; time < times; ++time) {
    const at::Tensor leaf = Leaf(x);
    outcome.y = block(leaf);
    const auto node = std::dynamic_pointer_cast<BlockNode>(outcome.y.grad_fn());
    if (node == nullptr) {
      ADD_FAILURE() << "not an own node";
      return outcome;
    }
    if (split) node->DeferWeights();
    outcome.dx = autograd::Engine::get_default_engine().execute(
        {autograd::impl::gradient_edge(outcome.y)}, {dy}, /*keep_graph=*/split,
        /*create_graph=*/false, /*accumulate_grad=*/false,
        {autograd::impl::gradient_edge(leaf)})[0];
    if (split) node->RunWeights();
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& gradient = parameters.gradient(i);
    outcome.gradients.push_back(gradient.defined() ? gradient.clone()
                                                   : at::Tensor());
  }
  return outcome;
}

double Distance(const at::Tensor& a, const at::Tensor& b) {
  const double size = Largest(b);
  return Largest(a.to(at::kDouble) - b.to(at::kDouble)) / (size > 0 ? size : 1);
}

void ExpectClose(const Outcome& own, const Outcome& reference,
                 double tolerance) {
  EXPECT_LE(Distance(own.y, reference.y), tolerance);
  EXPECT_LE(Distance(own.dx, reference.dx), tolerance);
  ASSERT_EQ(own.gradients.size(), reference.gradients.size());
  double largest = 0;
  for (const at::Tensor& gradient : reference.gradients) {
    largest = std::max(largest, Largest(gradient));
  }
  for (size_t i = 0; i < own.gradients.size(); ++i) {
    const double difference = Largest(own.gradients[i].to(at::kDouble) -
                                      reference.gradients[i].to(at::kDouble));
    EXPECT_LE(difference / largest, tolerance) << "parameter " << i;
  }
}

void ExpectSameBits(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(a.y.equal(b.y));
  EXPECT_TRUE(a.dx.equal(b.dx));
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    EXPECT_TRUE(a.gradients[i].equal(b.gradients[i])) << "parameter " << i;
  }
}

void ExpectAnyCanBeFrozen(const BlockFunction& block,
                          TestParameters* parameters, const at::Tensor& x,
                          const at::Tensor& dy) {
  const Outcome whole = RunOwn(block, *parameters, x, dy);
  for (size_t i = 0; i < parameters->size(); ++i) {
    SCOPED_TRACE("frozen: parameter " + std::to_string(i));
    parameters->SetFrozen(i, true);
    for (const bool split : {false, true}) {
      Outcome rest = RunOwn(block, *parameters, x, dy, split);
      EXPECT_FALSE(rest.gradients[i].defined());
      rest.gradients[i] = whole.gradients[i];
      ExpectSameBits(rest, whole);
    }
    parameters->SetFrozen(i, false);
  }
  for (size_t i = 0; i < parameters->size(); ++i) {
    parameters->SetFrozen(i, true);
  }
  for (const bool split : {false, true}) {
    EXPECT_TRUE(RunOwn(block, *parameters, x, dy, split).dx.equal(whole.dx));
  }
  EXPECT_EQ(block(x).grad_fn(), nullptr);
}

}  // namespace stagecoach::worker::kernels
