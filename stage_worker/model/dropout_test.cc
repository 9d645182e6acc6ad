#include "stage_worker/model/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace stagecoach::worker {
namespace {

constexpr double kProbability = 0.1;

at::Tensor Mask(const DropoutPosition& position, int64_t layer = 3,
                DropoutSite site = DropoutSite::kMlpOutput) {
  return DropoutMask({7, 11, 13}, kProbability, position, layer, site);
}

TEST(DropoutTest, DropsAsManyAsAsked) {
  const int64_t elements = 1 << 20;
  for (const double probability : {0.0, 0.1, 0.5, 0.9}) {
    const at::Tensor mask = DropoutMask({elements}, probability, {7, 1, 2}, 0,
                                        DropoutSite::kEmbedding);
    // Six deviations of a binomial.
    const double bound =
        6 * std::sqrt(probability * (1 - probability) / elements) + 1e-9;
    EXPECT_NEAR(mask.to(at::kDouble).mean().item<double>(), probability, bound);
  }
}

TEST(DropoutTest, IsAFunctionOfItsPosition) {
  const DropoutPosition position = {7, 5, 2};
  EXPECT_TRUE(at::equal(Mask(position), Mask(position)));
  const at::Tensor others[] = {
      Mask({8, 5, 2}),   Mask({7, 6, 2}),
      Mask({7, 5, 3}),   Mask({int64_t{7} | int64_t{1} << 40, 5, 2}),
      Mask(position, 4), Mask(position, 3, DropoutSite::kAttentionOutput),
  };
  for (const at::Tensor& other : others) {
    EXPECT_FALSE(at::equal(Mask(position), other));
  }
}

// The reference vectors of Random123 for Philox 4x32-10.
TEST(DropoutTest, DrawsThePublishedNumbers) {
  // Counter and key zero: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
  const auto dropped = [](double probability) {
    const at::Tensor mask =
        DropoutMask({4}, probability, {0, 0, 0}, 0, DropoutSite::kEmbedding);
    std::string text;
    for (int64_t i = 0; i < 4; ++i) {
      text += mask[i].item<bool>() ? '1' : '0';
    }
    return text;
  };
  const double words[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const char* const at_words[] = {"0000", "1011", "1001", "1000"};
  const char* const above[] = {"1000", "1111", "1011", "1001"};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(dropped(words[i] / 4294967296.0), at_words[i]) << i;
    EXPECT_EQ(dropped((words[i] + 1) / 4294967296.0), above[i]) << i;
  }
}

TEST(DropoutTest, ThreadsChangeNothing) {
  const auto mask = [] {
    return DropoutMask({1 << 18}, 0.3, {1, 2, 3}, 4, DropoutSite::kAttention);
  };
  at::set_num_threads(1);
  const at::Tensor one = mask();
  at::set_num_threads(3);
  EXPECT_TRUE(at::equal(mask(), one));
  at::set_num_threads(1);
}

TEST(DropoutTest, KeepsTheMeanAndScalesTheGradientAlike) {
  const at::Tensor x = at::rand({64, 64}).requires_grad_(true);
  const DropoutPosition position = {7, 0, 0};
  const at::Tensor y = Drop(x, 0.25, position, 0, DropoutSite::kMlpOutput);
  const at::Tensor mask =
      DropoutMask(x.sizes(), 0.25, position, 0, DropoutSite::kMlpOutput);
  const at::Tensor kept = mask.logical_not().to(at::kFloat);
  EXPECT_TRUE(at::allclose(y.detach(), x.detach() * kept / 0.75));
  y.sum().backward();
  EXPECT_TRUE(at::allclose(x.grad(), kept / 0.75));
  EXPECT_TRUE(at::equal(Drop(x, 0, position, 0, DropoutSite::kMlpOutput), x));
}

}  // namespace
}  // namespace stagecoach::worker
