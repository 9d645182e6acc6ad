#include "stage_worker/kernels/gpt2_block.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "stage_worker/kernels/block_test_util.h"

namespace stagecoach::worker::kernels {
namespace {

constexpr double kEpsilon = 2e-5;

struct Shape {
  int64_t rows = 2;
  int64_t sequence = 9;
  int64_t hidden = 20;
  int64_t heads = 2;
  int64_t inner = 50;
  job::Activation activation = job::Activation::kGeluTanh;
  double score_scale = 0.3;

  std::vector<int64_t> x() const { return {rows, sequence, hidden}; }
};

// In the order of the block's fields.
TestParameters ParametersOf(const Shape& shape, at::ScalarType type) {
  const int64_t h = shape.hidden;
  return TestParameters({{h},
                         {h},
                         {h, 3 * h},
                         {3 * h},
                         {h, h},
                         {h},
                         {h},
                         {h},
                         {h, shape.inner},
                         {shape.inner},
                         {shape.inner, h},
                         {h}},
                        /*around_one=*/{0, 6}, type);
}

Gpt2Block BlockOf(const Shape& shape, const TestParameters& p) {
  Gpt2Block block;
  block.ln_1_weight = p.At(0);
  block.ln_1_bias = p.At(1);
  block.c_attn = {p.At(2), p.At(3)};
  block.attn_c_proj = {p.At(4), p.At(5)};
  block.ln_2_weight = p.At(6);
  block.ln_2_bias = p.At(7);
  block.c_fc = {p.At(8), p.At(9)};
  block.mlp_c_proj = {p.At(10), p.At(11)};
  block.heads = shape.heads;
  block.score_scale = shape.score_scale;
  block.epsilon = kEpsilon;
  block.activation = shape.activation;
  return block;
}

BlockFunction Own(const Gpt2Block& block) {
  return [&block](const at::Tensor& x) { return RunGpt2Block(block, x); };
}

BlockFunction Reference(const Shape& c, const TestParameters& p) {
  return [&c, &p](const at::Tensor& x) {
    const auto linear = [&](const at::Tensor& in, size_t weight) {
      return at::matmul(in, p.value(weight)) + p.value(weight + 1);
    };
    const auto norm = [&](const at::Tensor& in, size_t weight) {
      return at::layer_norm(in, {c.hidden}, p.value(weight),
                            p.value(weight + 1), kEpsilon);
    };
    const std::vector<at::Tensor> qkv =
        linear(norm(x, 0), 2).split(c.hidden, /*dim=*/2);
    const auto heads = [&](const at::Tensor& part) {
      return part.view({c.rows, c.sequence, c.heads, c.hidden / c.heads})
          .transpose(1, 2);
    };
    const at::Tensor mixed = AttendWithAten(heads(qkv[0]), heads(qkv[1]),
                                            heads(qkv[2]), c.score_scale);
    const at::Tensor x1 =
        x + linear(mixed.transpose(1, 2).reshape(x.sizes()), 4);
    return x1 +
           linear(ActivateWithAten(c.activation, linear(norm(x1, 6), 8)), 10);
  };
}

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes(1);
  Shape& several_blocks = shapes.emplace_back();
  several_blocks.sequence = 150;  // two blocks of queries and a part
  several_blocks.hidden = 48;
  several_blocks.heads = 3;
  several_blocks.inner = 192;
  for (const job::Activation activation :
       {job::Activation::kGelu, job::Activation::kSilu,
        job::Activation::kRelu}) {
    shapes.emplace_back().activation = activation;
  }
  Shape& least = shapes.emplace_back();
  least.rows = least.sequence = 1;
  least.hidden = least.heads = 3;
  least.inner = 1;
  return shapes;
}

TEST(Gpt2BlockTest, InDoubleItIsWhatAutogradComputes) {
  at::manual_seed(1);
  for (const Shape& shape : Shapes()) {
    SCOPED_TRACE(shape.sequence);
    const TestParameters p = ParametersOf(shape, at::kDouble);
    const Gpt2Block block = BlockOf(shape, p);
    const at::Tensor x = Drawn(shape.x(), at::kDouble);
    const at::Tensor dy = Drawn(shape.x(), at::kDouble);
    ExpectClose(RunOwn(Own(block), p, x, dy),
                RunReference(Reference(shape, p), p, x, dy), 1e-12);
  }
}

// float goes through other code: vectors of 16, an own exponential.
TEST(Gpt2BlockTest, InFloatItIsCloseToDouble) {
  for (const Shape& shape : Shapes()) {
    SCOPED_TRACE(shape.sequence);
    at::manual_seed(2);
    const TestParameters single = ParametersOf(shape, at::kFloat);
    at::manual_seed(2);
    const TestParameters exact = ParametersOf(shape, at::kDouble);
    const Gpt2Block block = BlockOf(shape, single);
    const at::Tensor x = Drawn(shape.x(), at::kDouble);
    const at::Tensor dy = Drawn(shape.x(), at::kDouble);
    ExpectClose(RunOwn(Own(block), single, x.to(at::kFloat), dy.to(at::kFloat)),
                RunReference(Reference(shape, exact), exact, x, dy), 5e-6);
  }
}

TEST(Gpt2BlockTest, BothLibrariesGiveTheSameProducts) {
  if (!HasOneDnn()) GTEST_SKIP() << "this processor has no AVX-512";
  Shape shape;
  shape.sequence = 64;
  shape.hidden = 256;  // large enough for oneDNN
  shape.heads = 4;
  shape.inner = 1024;
  at::manual_seed(3);
  const TestParameters p = ParametersOf(shape, at::kFloat);
  const at::Tensor x = Drawn(shape.x(), at::kFloat);
  const at::Tensor dy = Drawn(shape.x(), at::kFloat);
  const Gpt2Block mkl = BlockOf(shape, p);
  Gpt2Block one_dnn = mkl;
  one_dnn.library = GemmLibrary::kOneDnn;
  // Twice: the second time products are added to gradients that are there.
  ExpectClose(RunOwn(Own(one_dnn), p, x, dy, /*split=*/false, /*times=*/2),
              RunOwn(Own(mkl), p, x, dy, /*split=*/false, /*times=*/2), 5e-6);
}

TEST(Gpt2BlockTest, ASplitBackwardHasTheBitsOfAWholeOne) {
  at::manual_seed(4);
  const Shape shape;
  const TestParameters p = ParametersOf(shape, at::kFloat);
  const Gpt2Block block = BlockOf(shape, p);
  const at::Tensor x = Drawn(shape.x(), at::kFloat);
  const at::Tensor dy = Drawn(shape.x(), at::kFloat);
  const Outcome whole = RunOwn(Own(block), p, x, dy, /*split=*/false,
                               /*times=*/2);
  ExpectSameBits(whole,
                 RunOwn(Own(block), p, x, dy, /*split=*/true, /*times=*/2));
  const Outcome once = RunOwn(Own(block), p, x, dy);
  EXPECT_LE(Distance(whole.gradients[2], once.gradients[2] * 2), 1e-6);
}

TEST(Gpt2BlockTest, AnyParameterCanBeFrozen) {
  at::manual_seed(6);
  const Shape shape;
  TestParameters p = ParametersOf(shape, at::kFloat);
  const Gpt2Block block = BlockOf(shape, p);
  ExpectAnyCanBeFrozen(Own(block), &p, Drawn(shape.x(), at::kFloat),
                       Drawn(shape.x(), at::kFloat));
}

// Also of the parts that two threads make, whatever they are.
TEST(Gpt2BlockTest, TheGradientIsThatOfEveryRow) {
  at::manual_seed(5);
  Shape shape;
  shape.rows = 3;
  shape.sequence = 70;
  const TestParameters p = ParametersOf(shape, at::kFloat);
  const Gpt2Block block = BlockOf(shape, p);
  const at::Tensor x = Drawn(shape.x(), at::kFloat);
  const at::Tensor dy = Drawn(shape.x(), at::kFloat);
  const Outcome one = RunOwn(Own(block), p, x, dy);
  at::set_num_threads(2);
  const Outcome two = RunOwn(Own(block), p, x, dy);
  at::set_num_threads(1);
  ExpectClose(two, one, 5e-6);
}

TEST(Gpt2BlockTest, NaNsAreNotLost) {
  const Shape shape;
  const TestParameters p = ParametersOf(shape, at::kFloat);
  const Gpt2Block block = BlockOf(shape, p);
  at::Tensor x = Drawn(shape.x(), at::kFloat);
  x[1][3][7] = NAN;
  const Outcome outcome =
      RunOwn(Own(block), p, x, Drawn(shape.x(), at::kFloat));
  EXPECT_TRUE(outcome.y[1][3].isnan().all().item<bool>());
  EXPECT_FALSE(outcome.y[0].isnan().any().item<bool>());
  EXPECT_TRUE(outcome.gradients[2].isnan().any().item<bool>());
}

TEST(Gpt2BlockTest, WithoutGradientsThereIsNoNode) {
  const Shape shape;
  const TestParameters p = ParametersOf(shape, at::kFloat);
  const at::AutoGradMode off(false);
  EXPECT_EQ(
      RunGpt2Block(BlockOf(shape, p), Drawn(shape.x(), at::kFloat)).grad_fn(),
      nullptr);
}

}  // namespace
}  // namespace stagecoach::worker::kernels
