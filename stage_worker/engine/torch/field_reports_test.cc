#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "job/boundary.h"
#include "stage_worker/engine/torch/torch_test_util.h"

// What went wrong for users of other engines when outputs were given back, each
// as a test: such an output is released, or reported as kept, and never
// corrupted. Freed blocks and returned slots are filled with NaN here.
namespace stagecoach::worker {
namespace {

using memory::Category;
using Tensors = std::vector<at::Tensor>;
using Change = std::function<Tensors(const at::Tensor& output)>;

constexpr MicrobatchIndex kMicrobatch{0};

// GPT-2 whose stages, but for the last, do something to their output; the next
// stage takes the first of what it gets.
class ChangedStage final : public StageModel {
 public:
  ChangedStage(std::unique_ptr<StageModel> inner, Change change)
      : inner_(std::move(inner)), change_(std::move(change)) {}
  std::vector<StageParameter*> parameters() override {
    return inner_->parameters();
  }
  Tensors Forward(Tensors inputs, const at::Tensor& targets) override {
    inputs.resize(1);
    Tensors outputs = inner_->Forward(std::move(inputs), targets);
    return targets.defined() ? outputs : change_(outputs[0]);
  }

 private:
  const std::unique_ptr<StageModel> inner_;
  const Change change_;
};

StageModelFactory With(const Change& change) {
  return [change](const job::JobSpec& spec, const StageAssignment& stage)
             -> absl::StatusOr<std::unique_ptr<StageModel>> {
    auto model = NewGpt2Stage(spec, stage);
    if (!model.ok()) return model;
    return std::unique_ptr<StageModel>(
        std::make_unique<ChangedStage>(std::move(model).value(), change));
  };
}

// Losses and parameters after some steps on so many engines.
std::string Bits(int engines, const Change& change) {
  TorchBench bench(TinySpec(), 3, engines, With(change));
  std::string bits;
  for (int step = 0; step < 3; ++step) {
    const LocalStep result = bench.Step(step);
    EXPECT_TRUE(result.all_finite);
    bits += std::to_string(result.loss) + " ";
  }
  const auto digests = bench->Digests();
  EXPECT_TRUE(digests.ok());
  for (const ParameterDigest& digest : *digests) bits += digest.sha256;
  EXPECT_EQ(CurrentBytes(Category::kActivation), 0);
  EXPECT_EQ(CurrentBytes(Category::kWireSend), 0);
  return bits;
}

Tensors Plain(const at::Tensor& x) { return {x}; }

class FieldReportsTest
    : public ::testing::TestWithParam<std::pair<const char*, Change>> {};

// With each stage in another process, where outputs are dropped once they were
// copied, training gives the bits of one process, where they are handed over.
TEST_P(FieldReportsTest, TrainsToTheBitsOfOneProcessAndLeavesNothing) {
  EXPECT_EQ(Bits(3, GetParam().second), Bits(1, GetParam().second));
}

INSTANTIATE_TEST_SUITE_P(
    Outputs, FieldReportsTest,
    ::testing::Values(
        std::make_pair("Plain", Change(Plain)),
        // Megatron-LM 6483: the assertion that an output is no view.
        std::make_pair("View", Change([](const at::Tensor& x) {
                         return Tensors{x.transpose(0, 1).transpose(0, 1)};
                       })),
        std::make_pair(
            "PartOfALarger", Change([](const at::Tensor& x) {
              return Tensors{at::cat({x, x}).narrow(0, x.size(0), x.size(0))};
            })),
        // Paddle 54672: written in place.
        std::make_pair("WrittenInPlace", Change([](const at::Tensor& x) {
                         at::Tensor y = x * 2;
                         return Tensors{y.mul_(0.5)};
                       })),
        // Paddle 78531, 78669: memory that nothing was written to.
        std::make_pair("NeverWritten", Change([](const at::Tensor& x) {
                         return Tensors{x, at::empty_like(x.detach())};
                       })),
        // Paddle 54625: another op of the stage has saved it.
        std::make_pair("SavedByAnotherOp", Change([](const at::Tensor& x) {
                         const at::Tensor y = x * 1;
                         return Tensors{y, y * y};
                       })),
        std::make_pair("SavedByItsOwnOp", Change([](const at::Tensor& x) {
                         return Tensors{at::tanh(x)};
                       })),
        std::make_pair("Twice", Change([](const at::Tensor& x) {
                         return Tensors{x, x};
                       })),
        std::make_pair("WithoutGradient", Change([](const at::Tensor& x) {
                         return Tensors{x, x.detach() * 2};
                       })),
        std::make_pair("Integers", Change([](const at::Tensor& x) {
                         return Tensors{x, x.detach().argmax(-1)};
                       })),
        std::make_pair("ZeroSize", Change([](const at::Tensor& x) {
                         return Tensors{x, x.detach().narrow(0, 0, 0)};
                       }))),
    [](const ::testing::TestParamInfo<FieldReportsTest::ParamType>& name) {
      return std::string(name.param.first);
    });

struct Slot {
  TensorRef tensor;
  std::weak_ptr<void> memory;
};

Slot Receive(StageEngine& engine) {
  const TensorDescriptor descriptor = job::BoundaryOf(TinySpec()).tensors[0];
  std::shared_ptr<void> memory(std::aligned_alloc(64, descriptor.bytes()),
                               std::free);
  std::memset(memory.get(), 0, descriptor.bytes());
  Slot slot;
  slot.memory = memory;
  void* const data = memory.get();
  slot.tensor = engine.Adopt(descriptor, data, std::move(memory)).value();
  return slot;
}

// Paddle 73508: inputs were freed too, and training broke.
TEST(FieldReportsInputTest, AnInputLivesUntilItsBackward) {
  TorchBench bench(TinySpec(), 3, 3);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  StageEngine& engine = bench.engine(1);
  Slot input = Receive(engine);
  auto outputs =
      engine.Forward(StageIndex(1), kMicrobatch, {std::move(input.tensor)});
  ASSERT_TRUE(outputs.ok());
  outputs->clear();
  EXPECT_FALSE(input.memory.expired());
  Slot gradient = Receive(engine);
  ASSERT_TRUE(
      engine.Backward(StageIndex(1), kMicrobatch, {std::move(gradient.tensor)})
          .ok());
  EXPECT_TRUE(input.memory.expired()) << "and no longer";
  // PyTorch 153383: input and output gradients kept to the end of the step.
  EXPECT_TRUE(gradient.memory.expired());
}

// PyTorch 128910, 138504: losses, graphs or outputs kept until the step's end.
TEST(FieldReportsInputTest, NothingOfAMicrobatchOutlivesItsBackward) {
  job::JobSpec spec = TinySpec();
  spec.training.microbatches = 16;
  TorchBench bench(spec, 1, 1);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  for (int m = 0; m < 16; ++m) {
    const MicrobatchIndex microbatch(m);
    ASSERT_TRUE(bench.engine(0).Forward(StageIndex(0), microbatch, {}).ok());
    ASSERT_TRUE(bench.engine(0).Backward(StageIndex(0), microbatch, {}).ok());
    EXPECT_EQ(CurrentBytes(Category::kActivation), 0) << m;
  }
}

}  // namespace
}  // namespace stagecoach::worker
