#include "stage_worker/engine/torch/autograd_edges.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "stage_worker/engine/torch/torch_tensor.h"
#include "stage_worker/engine/torch/torch_test_util.h"

namespace stagecoach::worker {
namespace {

using Tensors = std::vector<at::Tensor>;
using Watch = std::shared_ptr<const memory::BlockWatch>;

Watch WatchOf(const at::Tensor& tensor) { return TorchTensor(tensor).watch(); }

class MicrobatchGraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    StartTorchForTests();
    weight_ = at::full({3}, 2.0f).requires_grad_(true);
    received_ = at::full({3}, 5.0f);
  }

  at::Tensor weight_;
  at::Tensor received_;
  MicrobatchGraph graph_;
};

TEST_F(MicrobatchGraphTest, CatchesTheInputGradientAndFillsTheParameters) {
  const at::Tensor x = graph_.MarkInput(received_);
  graph_.KeepOutput(x * weight_);
  const Tensors gradients = graph_.Backward({at::full({3}, 10.0f)});
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_TRUE(at::equal(gradients[0], at::full({3}, 20.0f)));
  EXPECT_TRUE(at::equal(weight_.grad(), at::full({3}, 50.0f)));
}

TEST_F(MicrobatchGraphTest, AnInputThatNoOpSavedIsNotPinned) {
  at::Tensor x = graph_.MarkInput(received_);
  const Watch watch = WatchOf(received_);
  graph_.KeepOutput(x + weight_);
  received_.reset();
  EXPECT_FALSE(watch->freed());
  x.reset();
  EXPECT_TRUE(watch->freed());
  EXPECT_TRUE(at::equal(graph_.Backward({at::ones({3})})[0], at::ones({3})));
}

TEST_F(MicrobatchGraphTest, AnInputThatAnOpSavedLivesUntilTheBackward) {
  at::Tensor x = graph_.MarkInput(received_);
  const Watch watch = WatchOf(received_);
  graph_.KeepOutput(x * weight_);
  received_.reset();
  x.reset();
  EXPECT_FALSE(watch->freed());
  graph_.Backward({at::ones({3})});
  EXPECT_TRUE(watch->freed());
}

TEST_F(MicrobatchGraphTest, TheReceivedTensorItselfStaysOutsideTheGraph) {
  graph_.MarkInput(received_);
  EXPECT_FALSE(received_.requires_grad());
}

TEST_F(MicrobatchGraphTest, AnUnusedInputHasAZeroGradient) {
  graph_.MarkInput(received_);
  const at::Tensor other = graph_.MarkInput(at::ones({2}));
  graph_.KeepOutput(other * 3);
  const Tensors gradients = graph_.Backward({at::ones({2})});
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_TRUE(at::equal(gradients[0], at::zeros({3})));
  EXPECT_TRUE(at::equal(gradients[1], at::full({2}, 3.0f)));
}

// Token ids and masks may travel along; only floating point has gradients.
TEST_F(MicrobatchGraphTest, IntegersCarryNoGradient) {
  const at::Tensor ids = graph_.MarkInput(at::ones({3}, at::kLong));
  EXPECT_FALSE(ids.requires_grad());
  const at::Tensor x = graph_.MarkInput(received_);
  graph_.KeepOutput(x * weight_);
  graph_.KeepOutput(ids + 1);
  EXPECT_EQ(graph_.Backward({at::ones({3})}).size(), 1u);
}

TEST_F(MicrobatchGraphTest, TheGradientOfADetachedOutputIsIgnored) {
  const at::Tensor x = graph_.MarkInput(received_);
  graph_.KeepOutput((x * 7).detach());
  graph_.KeepOutput(x * 2);
  const Tensors gradients =
      graph_.Backward({at::full({3}, 100.0f), at::ones({3})});
  EXPECT_TRUE(at::equal(gradients[0], at::full({3}, 2.0f)));
}

TEST_F(MicrobatchGraphTest, OutputsThatAreAllDetachedLeaveZeroGradients) {
  const at::Tensor x = graph_.MarkInput(received_);
  graph_.KeepOutput((x * 7).detach());
  EXPECT_TRUE(at::equal(graph_.Backward({at::ones({3})})[0], at::zeros({3})));
}

// The engine adds gradients in place where it may; the residual sum below would
// otherwise land in the received gradient.
TEST_F(MicrobatchGraphTest, DoesNotWriteIntoAReceivedGradient) {
  const at::Tensor x = graph_.MarkInput(received_);
  graph_.KeepOutput(x + at::tanh(x * weight_));
  const at::Tensor gradient = at::ones({3});
  const void* const bytes = gradient.const_data_ptr();
  Tensors gradients;
  {
    Tensors moved;
    moved.push_back(gradient);
    gradients = graph_.Backward(std::move(moved));
  }
  EXPECT_TRUE(at::equal(gradient, at::ones({3})));
  EXPECT_NE(gradients[0].const_data_ptr(), bytes);
}

TEST_F(MicrobatchGraphTest, DoesNotWriteIntoAGradientNobodyElseHolds) {
  const at::Tensor x = graph_.MarkInput(received_);
  graph_.KeepOutput(x + at::tanh(x * weight_));
  std::vector<float> slot(16, 1.0f);
  Tensors moved;
  moved.push_back(at::from_blob(slot.data(), {3}, at::kFloat));
  const Tensors gradients = graph_.Backward(std::move(moved));
  EXPECT_EQ(slot, std::vector<float>(16, 1.0f));
  EXPECT_NE(gradients[0].const_data_ptr(), slot.data());
}

TEST_F(MicrobatchGraphTest, RefusesGradientsThatDoNotFitAndKeepsTheGraph) {
  const at::Tensor x = graph_.MarkInput(received_);
  graph_.KeepOutput(x * weight_);
  EXPECT_THROW(graph_.Backward({}), std::invalid_argument);
  EXPECT_THROW(graph_.Backward({at::ones({4})}), std::invalid_argument);
  EXPECT_THROW(graph_.Backward({at::ones({3}, at::kDouble)}),
               std::invalid_argument);
  EXPECT_EQ(graph_.Backward({at::ones({3})}).size(), 1u);
}

TEST_F(MicrobatchGraphTest, NamesTheOpThatSavedATensor) {
  const at::Tensor x = graph_.MarkInput(received_);
  const at::Tensor product = x * weight_;
  const at::Tensor bent = at::tanh(product);
  const at::Tensor sum = bent + 1;
  graph_.KeepOutput(sum);
  EXPECT_EQ(graph_.OpThatSaved(StorageIdentity(received_)), "MulBackward0");
  EXPECT_EQ(graph_.OpThatSaved(StorageIdentity(bent)), "TanhBackward0");
  EXPECT_EQ(graph_.OpThatSaved(StorageIdentity(sum)), "");
  graph_.Backward({at::ones({3})});
  EXPECT_EQ(graph_.OpThatSaved(StorageIdentity(bent)), "");
}

}  // namespace
}  // namespace stagecoach::worker
