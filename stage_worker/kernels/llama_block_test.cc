#include "stage_worker/kernels/llama_block.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "stage_worker/kernels/block_test_util.h"

namespace stagecoach::worker::kernels {
namespace {

constexpr double kEpsilon = 3e-5;

struct Shape {
  int64_t rows = 2;
  int64_t sequence = 9;
  int64_t hidden = 20;
  int64_t heads = 4;
  int64_t key_value_heads = 2;
  int64_t head_width = 6;
  int64_t inner = 37;
  int64_t window = 0;
  bool biases = false;
  bool head_norms = false;

  std::vector<int64_t> x() const { return {rows, sequence, hidden}; }
};

// Indices of TestParameters.
enum : size_t {
  kInputNorm,
  kQuery,
  kQueryBias,
  kKey,
  kKeyBias,
  kValue,
  kValueBias,
  kOutput,
  kQueryNorm,
  kKeyNorm,
  kPostNorm,
  kGate,
  kUp,
  kDown,
  kDownBias,
};

TestParameters ParametersOf(const Shape& c, at::ScalarType type) {
  const int64_t q = c.heads * c.head_width;
  const int64_t kv = c.key_value_heads * c.head_width;
  return TestParameters({{c.hidden},
                         {q, c.hidden},
                         {q},
                         {kv, c.hidden},
                         {kv},
                         {kv, c.hidden},
                         {kv},
                         {c.hidden, q},
                         {c.head_width},
                         {c.head_width},
                         {c.hidden},
                         {c.inner, c.hidden},
                         {c.inner, c.hidden},
                         {c.hidden, c.inner},
                         {c.hidden}},
                        {kInputNorm, kQueryNorm, kKeyNorm, kPostNorm}, type);
}

struct Angles {
  at::Tensor cosine;
  at::Tensor sine;
};
Angles AnglesOf(const Shape& c, at::ScalarType type) {
  const at::Tensor angles =
      at::arange(c.sequence, at::kDouble).unsqueeze(1) *
      (at::arange(c.head_width / 2, at::kDouble) * -0.7).exp();
  const at::Tensor twice = at::cat({angles, angles}, 1);
  return {(twice.cos() * 1.1).to(type).contiguous(),
          (twice.sin() * 1.1).to(type).contiguous()};
}

LlamaBlock BlockOf(const Shape& c, const TestParameters& p,
                   const Angles& angles) {
  const auto bias = [&](size_t i) { return c.biases ? p.At(i) : Parameter(); };
  LlamaBlock block;
  block.input_norm = p.At(kInputNorm);
  block.q_proj = {p.At(kQuery), bias(kQueryBias), true};
  block.k_proj = {p.At(kKey), bias(kKeyBias), true};
  block.v_proj = {p.At(kValue), bias(kValueBias), true};
  block.o_proj = {p.At(kOutput), {}, true};
  if (c.head_norms) {
    block.q_norm = p.At(kQueryNorm);
    block.k_norm = p.At(kKeyNorm);
  }
  block.post_attention_norm = p.At(kPostNorm);
  block.gate_proj = {p.At(kGate), {}, true};
  block.up_proj = {p.At(kUp), {}, true};
  block.down_proj = {p.At(kDown), bias(kDownBias), true};
  block.cosine = &angles.cosine;
  block.sine = &angles.sine;
  block.heads = c.heads;
  block.key_value_heads = c.key_value_heads;
  block.head_width = c.head_width;
  block.window = c.window;
  block.epsilon = kEpsilon;
  return block;
}

BlockFunction Own(const LlamaBlock& block) {
  return [&block](const at::Tensor& x) { return RunLlamaBlock(block, x); };
}

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight) {
  return weight * x * at::rsqrt(x.pow(2).mean(-1, true) + kEpsilon);
}

// All parameters are used, so that each has a gradient, if only 0.
BlockFunction Reference(const Shape& c, const TestParameters& p,
                        const Angles& angles) {
  return [&](const at::Tensor& x) {
    const auto linear = [&](const at::Tensor& in, size_t weight, size_t bias) {
      at::Tensor y = at::matmul(in, p.value(weight).t());
      if (bias == 0) return y;
      return y + p.value(bias) * (c.biases ? 1 : 0);
    };
    const auto rotated = [&](const at::Tensor& heads) {
      const int64_t half = c.head_width / 2;
      const at::Tensor turned = at::cat(
          {-heads.narrow(-1, half, half), heads.narrow(-1, 0, half)}, -1);
      return heads * angles.cosine + turned * angles.sine;
    };
    const auto heads = [&](const at::Tensor& in, int64_t count, size_t norm) {
      at::Tensor split = in.view({c.rows, c.sequence, count, c.head_width});
      if (norm != 0) {
        const at::Tensor normed = RmsNorm(split, p.value(norm));
        split = c.head_norms ? normed : split + 0 * normed;
      }
      split = split.transpose(1, 2);
      return norm == 0 ? split : rotated(split);
    };
    const at::Tensor normed = RmsNorm(x, p.value(kInputNorm));
    const int64_t group = c.heads / c.key_value_heads;
    const at::Tensor query =
        heads(linear(normed, kQuery, kQueryBias), c.heads, kQueryNorm);
    const at::Tensor key =
        heads(linear(normed, kKey, kKeyBias), c.key_value_heads, kKeyNorm)
            .repeat_interleave(group, 1);
    const at::Tensor value =
        heads(linear(normed, kValue, kValueBias), c.key_value_heads, 0)
            .repeat_interleave(group, 1);
    const at::Tensor mixed = AttendWithAten(
        query, key, value, 1 / std::sqrt(static_cast<double>(c.head_width)),
        c.window);
    const at::Tensor x1 =
        x + linear(mixed.transpose(1, 2).reshape(
                       {c.rows, c.sequence, c.heads * c.head_width}),
                   kOutput, 0);
    const at::Tensor z = RmsNorm(x1, p.value(kPostNorm));
    return x1 + linear(at::silu(linear(z, kGate, 0)) * linear(z, kUp, 0), kDown,
                       kDownBias);
  };
}

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes(1);
  Shape& biases = shapes.emplace_back();
  biases.biases = true;
  biases.key_value_heads = 4;
  Shape& norms = shapes.emplace_back();
  norms.head_norms = true;
  norms.key_value_heads = 1;
  Shape& window = shapes.emplace_back();
  window.window = 4;
  Shape& several_blocks = shapes.emplace_back();
  several_blocks.sequence = 150;
  several_blocks.head_width = 32;
  Shape& several_windows = shapes.emplace_back();
  several_windows.sequence = 200;
  several_windows.window = 70;
  Shape& wide_window = shapes.emplace_back();
  wide_window.window = 9;  // sees all
  return shapes;
}

TEST(LlamaBlockTest, InDoubleItIsWhatAutogradComputes) {
  at::manual_seed(1);
  for (const Shape& shape : Shapes()) {
    SCOPED_TRACE(&shape - Shapes().data());
    const TestParameters p = ParametersOf(shape, at::kDouble);
    const Angles angles = AnglesOf(shape, at::kDouble);
    const LlamaBlock block = BlockOf(shape, p, angles);
    const at::Tensor x = Drawn(shape.x(), at::kDouble);
    const at::Tensor dy = Drawn(shape.x(), at::kDouble);
    ExpectClose(RunOwn(Own(block), p, x, dy),
                RunReference(Reference(shape, p, angles), p, x, dy), 1e-12);
  }
}

TEST(LlamaBlockTest, InFloatItIsCloseToDouble) {
  for (const Shape& shape : Shapes()) {
    at::manual_seed(2);
    const TestParameters single = ParametersOf(shape, at::kFloat);
    at::manual_seed(2);
    const TestParameters exact = ParametersOf(shape, at::kDouble);
    const Angles single_angles = AnglesOf(shape, at::kFloat);
    const Angles exact_angles = AnglesOf(shape, at::kDouble);
    const LlamaBlock block = BlockOf(shape, single, single_angles);
    const at::Tensor x = Drawn(shape.x(), at::kDouble);
    const at::Tensor dy = Drawn(shape.x(), at::kDouble);
    ExpectClose(
        RunOwn(Own(block), single, x.to(at::kFloat), dy.to(at::kFloat)),
        RunReference(Reference(shape, exact, exact_angles), exact, x, dy),
        5e-6);
  }
}

TEST(LlamaBlockTest, ASplitBackwardHasTheBitsOfAWholeOne) {
  at::manual_seed(3);
  for (const Shape& shape : Shapes()) {
    const TestParameters p = ParametersOf(shape, at::kFloat);
    const Angles angles = AnglesOf(shape, at::kFloat);
    const LlamaBlock block = BlockOf(shape, p, angles);
    const at::Tensor x = Drawn(shape.x(), at::kFloat);
    const at::Tensor dy = Drawn(shape.x(), at::kFloat);
    ExpectSameBits(RunOwn(Own(block), p, x, dy, /*split=*/false, /*times=*/2),
                   RunOwn(Own(block), p, x, dy, /*split=*/true, /*times=*/2));
  }
}

TEST(LlamaBlockTest, AnyParameterCanBeFrozen) {
  at::manual_seed(4);
  Shape shape;
  shape.biases = true;
  shape.head_norms = true;
  TestParameters p = ParametersOf(shape, at::kFloat);
  const Angles angles = AnglesOf(shape, at::kFloat);
  const LlamaBlock block = BlockOf(shape, p, angles);
  ExpectAnyCanBeFrozen(Own(block), &p, Drawn(shape.x(), at::kFloat),
                       Drawn(shape.x(), at::kFloat));
}

}  // namespace
}  // namespace stagecoach::worker::kernels
