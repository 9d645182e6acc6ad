#include "stage_worker/engine/torch/parameter_store.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "stage_worker/engine/torch/torch_test_util.h"

namespace stagecoach::worker {
namespace {

class ParameterStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { StartTorchForTests(); }

  StageParameter* Add(std::vector<int64_t> shape, double value) {
    StageParameter parameter;
    parameter.name = "p" + std::to_string(parameters_.size());
    parameter.shape = std::move(shape);
    parameter.global_index = static_cast<int64_t>(parameters_.size());
    parameter.initialise = [value](at::Tensor& tensor) { tensor.fill_(value); };
    parameters_.push_back(std::move(parameter));
    return &parameters_.back();
  }
  ParameterStore NewStore() {
    std::vector<StageParameter*> all;
    for (StageParameter& parameter : parameters_) all.push_back(&parameter);
    return ParameterStore(training_, at::kCPU, all);
  }
  static float First(const at::Tensor& tensor) {
    return tensor.flatten()[0].item<float>();
  }

  job::TrainingSpec training_;
  std::deque<StageParameter> parameters_;
};

TEST_F(ParameterStoreTest, DecayingParametersComeFirstAndEachIsAligned) {
  const StageParameter* const bias = Add({3}, 1);
  const StageParameter* const weight = Add({3, 7}, 2);
  const StageParameter* const scale = Add({17}, 3);
  const StageParameter* const cube = Add({2, 2, 2}, 4);
  const ParameterStore store = NewStore();
  EXPECT_EQ(weight->value.storage_offset(), 0);
  EXPECT_EQ(cube->value.storage_offset(), 32);
  EXPECT_EQ(bias->value.storage_offset(), 48);
  EXPECT_EQ(scale->value.storage_offset(), 64);
  EXPECT_EQ(store.buffer_bytes(), (32 + 16 + 16 + 32) * 4);
  for (const StageParameter* parameter : {bias, weight, scale, cube}) {
    const auto address =
        reinterpret_cast<uintptr_t>(parameter->value.const_data_ptr());
    EXPECT_EQ(address % 64, 0u);
    EXPECT_EQ(parameter->value.sizes().vec(), parameter->shape);
    EXPECT_EQ(parameter->gradient.storage_offset(),
              parameter->value.storage_offset());
    EXPECT_TRUE(parameter->value.requires_grad());
    EXPECT_TRUE(parameter->value.is_leaf());
  }
  EXPECT_EQ(First(scale->value), 3);
}

TEST_F(ParameterStoreTest, FrozenParametersComeLastAndHaveNoGradient) {
  const StageParameter* const frozen = Add({3, 7}, 1);
  const StageParameter* const weight = Add({3, 7}, 2);
  training_.freeze = {frozen->name};
  training_.weight_decay = 0.5;
  ParameterStore store = NewStore();
  EXPECT_EQ(weight->value.storage_offset(), 0);
  EXPECT_EQ(frozen->value.storage_offset(), 32);
  EXPECT_FALSE(frozen->value.requires_grad());
  EXPECT_FALSE(frozen->gradient.defined());
  EXPECT_EQ(weight->gradient.storage().nbytes(), 32u * 4);
  weight->gradient.fill_(4);
  EXPECT_EQ(store.SquaredNorms().size(), 1u);
  UpdateOptions update;
  update.learning_rate = 0.1;
  store.Update(update);
  EXPECT_LT(First(weight->value), 2);
  EXPECT_EQ(First(frozen->value), 1);
}

TEST_F(ParameterStoreTest, BackwardAddsIntoTheFlatGradient) {
  const StageParameter* const weight = Add({2, 2}, 2);
  ParameterStore store = NewStore();
  for (int i = 0; i < 2; ++i) (weight->value * 3).sum().backward();
  EXPECT_EQ(First(weight->gradient), 6);
  store.ZeroGradients();
  EXPECT_EQ(First(weight->gradient), 0);
}

// One AdamW step by hand, from zero state: m/(1-b1) = g, v/(1-b2) = g^2, so the
// parameter moves by lr * g / (|g| + eps), after decaying by lr * wd.
TEST_F(ParameterStoreTest, FirstAdamWStepIsAsTheFormulaSays) {
  const StageParameter* const weight = Add({2, 2}, 2);
  const StageParameter* const bias = Add({2}, 2);
  training_.weight_decay = 0.5;
  ParameterStore store = NewStore();
  weight->gradient.fill_(4);
  bias->gradient.fill_(4);
  UpdateOptions update;
  update.learning_rate = 0.1;
  store.Update(update);
  EXPECT_NEAR(First(weight->value), 2 * (1 - 0.1 * 0.5) - 0.1, 1e-6);
  EXPECT_NEAR(First(bias->value), 2 - 0.1, 1e-6) << "no decay of vectors";
}

// Three steps against the textbook in double, with the gradient clipped.
TEST_F(ParameterStoreTest, LaterAdamWStepsFollowTheTextbook) {
  const StageParameter* const weight = Add({2, 2}, 1);
  training_.betas = {0.8, 0.9};
  training_.weight_decay = 0.1;
  ParameterStore store = NewStore();
  double value = 1;
  double average = 0;
  double square = 0;
  for (int step = 0; step < 3; ++step) {
    store.ZeroGradients();
    weight->gradient.fill_(step - 0.5);
    UpdateOptions update;
    update.step = StepIndex(step);
    update.learning_rate = 0.1;
    update.clip_factor = 0.25;
    store.Update(update);
    const double gradient = 0.25 * (step - 0.5);
    average = 0.8 * average + 0.2 * gradient;
    square = 0.9 * square + 0.1 * gradient * gradient;
    value *= 1 - 0.1 * 0.1;
    value -= 0.1 * (average / (1 - std::pow(0.8, step + 1))) /
             (std::sqrt(square / (1 - std::pow(0.9, step + 1))) + 1e-8);
    EXPECT_NEAR(First(weight->value), value, 1e-5) << "step " << step;
  }
}

TEST_F(ParameterStoreTest, SgdMovesAgainstTheClippedGradient) {
  const StageParameter* const weight = Add({2, 2}, 1);
  training_.optimizer = job::OptimizerKind::kSgd;
  ParameterStore store = NewStore();
  weight->gradient.fill_(8);
  UpdateOptions update;
  update.learning_rate = 0.25;
  update.clip_factor = 0.5;
  store.Update(update);
  EXPECT_EQ(First(weight->value), 0);
}

TEST_F(ParameterStoreTest, AClipFactorOfOneChangesNothing) {
  const StageParameter* const weight = Add({2, 2}, 1);
  ParameterStore store = NewStore();
  weight->gradient.fill_(std::numeric_limits<float>::denorm_min());
  store.Update(UpdateOptions());
  EXPECT_EQ(First(weight->gradient), std::numeric_limits<float>::denorm_min());
}

TEST_F(ParameterStoreTest, GapsStayZero) {
  for (const auto optimizer :
       {job::OptimizerKind::kAdamW, job::OptimizerKind::kSgd}) {
    parameters_.clear();
    const StageParameter* const weight = Add({3, 7}, 2);
    Add({5}, 2);
    training_.optimizer = optimizer;
    ParameterStore store = NewStore();
    for (int step = 0; step < 3; ++step) {
      weight->gradient.fill_(1);
      UpdateOptions update;
      update.step = StepIndex(step);
      update.learning_rate = 0.1;
      store.Update(update);
    }
    const at::Tensor flat = weight->value.detach().as_strided({48}, {1}, 0);
    EXPECT_EQ(flat.narrow(0, 21, 11).abs().sum().item<float>(), 0);
    EXPECT_EQ(flat.narrow(0, 37, 11).abs().sum().item<float>(), 0);
  }
}

TEST_F(ParameterStoreTest, NormsAreSummedInDouble) {
  // In float32, 2^24 + 1 is 2^24. Two pieces of the sum, and a bit.
  const StageParameter* const wide = Add({3, 50000}, 0);
  const StageParameter* const small = Add({2}, 0);
  const ParameterStore store = NewStore();
  wide->gradient.fill_(1);
  wide->gradient.flatten()[0].fill_(4096);
  small->gradient.fill_(3);
  const std::vector<ParameterNorm> norms = store.SquaredNorms();
  ASSERT_EQ(norms.size(), 2u);
  EXPECT_EQ(norms[0].global_index, 0);
  EXPECT_EQ(norms[0].squared, 16777216.0 + 149999.0);
  EXPECT_EQ(norms[1].squared, 18);
}

TEST_F(ParameterStoreTest, TiedCopiesAreNotCounted) {
  StageParameter* const copy = Add({2, 2}, 1);
  StageParameter* const owner = Add({2, 2}, 1);
  copy->tied = true;
  copy->tied_copy = true;
  owner->tied = true;
  const ParameterStore store = NewStore();
  EXPECT_EQ(store.tied_owner(), owner);
  EXPECT_EQ(store.tied_copy(), copy);
  ASSERT_EQ(store.SquaredNorms().size(), 1u);
  EXPECT_EQ(store.SquaredNorms()[0].global_index, owner->global_index);
  ASSERT_EQ(store.Digests().size(), 1u);
  EXPECT_EQ(store.Digests()[0].name, owner->name);
}

TEST_F(ParameterStoreTest, DigestsTheBytesOfEachParameter) {
  Add({3}, 1);
  Add({2, 2}, -2);
  const ParameterStore store = NewStore();
  const std::vector<ParameterDigest> digests = store.Digests();
  ASSERT_EQ(digests.size(), 2u);
  const std::vector<float> ones(3, 1.0f);
  Sha256 sha256;
  sha256.Update(ones.data(), 12);
  EXPECT_EQ(digests[0].name, "p0");
  EXPECT_EQ(digests[0].sha256, sha256.FinishHex());
  EXPECT_EQ(digests[1].descriptor.ToString(), "float32[2, 2]");
}

TEST_F(ParameterStoreTest, MayBeEmpty) {
  ParameterStore store = NewStore();
  store.ZeroGradients();
  store.Update(UpdateOptions());
  EXPECT_TRUE(store.SquaredNorms().empty());
  EXPECT_EQ(store.buffer_bytes(), 0);
}

}  // namespace
}  // namespace stagecoach::worker
