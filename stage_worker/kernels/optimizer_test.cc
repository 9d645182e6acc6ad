#include "stage_worker/kernels/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "stage_worker/kernels/block_test_util.h"

namespace stagecoach::worker::kernels {
namespace {

// Several pieces and a rest that fills no vector.
constexpr int64_t kCount = 3 * (1 << 15) + 21;

at::Tensor Numbers() { return Drawn({kCount}, at::kFloat); }
float* Data(const at::Tensor& tensor) { return tensor.data_ptr<float>(); }

TEST(OptimizerTest, SquaresAreSummedInDouble) {
  at::manual_seed(1);
  const at::Tensor x = Numbers() * 1e-3;
  const double expected = x.to(at::kDouble).square().sum().item<double>();
  EXPECT_NEAR(SumOfSquares(Data(x), kCount) / expected, 1, 1e-13);
  EXPECT_EQ(SumOfSquares(nullptr, 0), 0);
}

TEST(OptimizerTest, SgdClipsUpdatesAndClears) {
  at::manual_seed(2);
  const at::Tensor values = Numbers();
  const at::Tensor gradients = Numbers();
  const at::Tensor expected = values - gradients * 0.5 * 0.1;
  SgdUpdate({/*rate=*/0.1, /*clip=*/0.5}, kCount, Data(gradients),
            Data(values));
  EXPECT_LE(Distance(values, expected), 1e-7);
  EXPECT_EQ(gradients.count_nonzero().item<int64_t>(), 0);
}

TEST(OptimizerTest, AdamWIsTorchsFusedOne) {
  at::manual_seed(3);
  at::Tensor own[4] = {Numbers(), {}, at::zeros({kCount}), at::zeros({kCount})};
  at::Tensor torchs[4];
  for (int i : {0, 2, 3}) torchs[i] = own[i].clone();
  AdamWOptions options;
  options.beta1 = 0.9;
  options.beta2 = 0.95;
  options.epsilon = 1e-8;
  options.weight_decay = 0.1;
  for (int64_t step = 1; step <= 4; ++step) {
    options.step = step;
    options.rate = 1e-2 * static_cast<double>(step);
    options.clip = step % 2 == 0 ? 1 : 0.25;
    own[1] = Numbers();
    torchs[1] = own[1] * options.clip;
    AdamWUpdate(options, kCount,
                {Data(own[0]), Data(own[1]), Data(own[2]), Data(own[3])});
    at::_fused_adamw_({torchs[0]}, {torchs[1]}, {torchs[2]}, {torchs[3]}, {},
                      {at::full({}, static_cast<double>(step), at::kFloat)},
                      options.rate, 0.9, 0.95, 0.1, 1e-8, false, false);
    for (int i : {0, 2, 3}) EXPECT_LE(Distance(own[i], torchs[i]), 1e-6) << i;
    EXPECT_EQ(own[1].count_nonzero().item<int64_t>(), 0);
  }
}

}  // namespace
}  // namespace stagecoach::worker::kernels
