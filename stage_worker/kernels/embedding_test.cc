#include "stage_worker/kernels/embedding.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <stdexcept>
#include <string>

#include "stage_worker/kernels/block_test_util.h"

namespace stagecoach::worker::kernels {
namespace {

// Some tokens twice, some never; more positions than the sequence has.
const at::Tensor& Tokens() {
  static const at::Tensor tokens =
      at::tensor({3, 0, 3, 6, 6, 6}, at::kLong).view({2, 3});
  return tokens;
}

void AddGradients(const at::Tensor& y, const at::Tensor& dy) {
  torch::autograd::Engine::get_default_engine().execute(
      {torch::autograd::impl::gradient_edge(y)}, {dy}, /*keep_graph=*/false,
      /*create_graph=*/false, /*accumulate_grad=*/true);
}

TEST(EmbeddingTest, IsWhatAtensOperatorsCompute) {
  at::manual_seed(1);
  for (const bool with_positions : {true, false}) {
    const TestParameters p({{7, 21}, {5, 21}}, {}, at::kFloat);
    const at::Tensor dy = Drawn({2, 3, 21}, at::kFloat);
    for (int time = 0; time < 2; ++time) {
      const at::Tensor own = RunEmbedding(
          p.At(0), with_positions ? p.At(1) : Parameter(), Tokens());
      at::Tensor expected = at::embedding(p.value(0), Tokens());
      if (with_positions) expected = expected + p.value(1).narrow(0, 0, 3);
      EXPECT_TRUE(own.equal(expected));
      AddGradients(own, dy);
      AddGradients(expected, dy);
    }
    EXPECT_LE(Distance(p.gradient(0), p.value(0).grad()), 1e-6);
    if (!with_positions) continue;
    EXPECT_LE(Distance(p.gradient(1), p.value(1).grad()), 1e-6);
  }
}

TEST(EmbeddingTest, EitherTableCanBeFrozen) {
  at::manual_seed(2);
  const at::Tensor dy = Drawn({2, 3, 21}, at::kFloat);
  TestParameters p({{7, 21}, {5, 21}}, {}, at::kFloat);
  AddGradients(RunEmbedding(p.At(0), p.At(1), Tokens()), dy);
  const at::Tensor whole[] = {p.gradient(0).clone(), p.gradient(1).clone()};
  for (const size_t frozen : {size_t{0}, size_t{1}}) {
    const size_t other = 1 - frozen;
    p.ZeroGradients();
    p.SetFrozen(frozen, true);
    AddGradients(RunEmbedding(p.At(0), p.At(1), Tokens()), dy);
    EXPECT_TRUE(p.gradient(other).equal(whole[other]));
    p.SetFrozen(frozen, false);
  }
  p.SetFrozen(0, true);
  p.SetFrozen(1, true);
  EXPECT_EQ(RunEmbedding(p.At(0), p.At(1), Tokens()).grad_fn(), nullptr);
}

TEST(EmbeddingTest, NamesATokenThatTheTableLacks) {
  const TestParameters p({{6, 4}}, {}, at::kFloat);
  try {
    RunEmbedding(p.At(0), {}, Tokens());
    FAIL() << "token 6 of 6 entries";
  } catch (const std::out_of_range& error) {
    EXPECT_NE(std::string(error.what()).find("token 6 of a vocabulary of 6"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace stagecoach::worker::kernels
