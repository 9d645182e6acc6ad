#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "job/model_shape.h"
#include "stage_worker/engine/torch/torch_test_util.h"

// What the torch engine allocates, keeps and gives back. Every figure is the
// allocator's.
namespace stagecoach::worker {
namespace {

using memory::AccountingAllocator;
using memory::Category;
using Tensors = std::vector<at::Tensor>;

// GPT-2 whose stages, but for the last, do something to their output.
class ChangedOutput final : public StageModel {
 public:
  using Change = std::function<Tensors(const at::Tensor& output)>;

  ChangedOutput(std::unique_ptr<StageModel> inner, Change change)
      : inner_(std::move(inner)), change_(std::move(change)) {}

  std::vector<StageParameter*> parameters() override {
    return inner_->parameters();
  }
  Tensors Forward(Tensors inputs, const at::Tensor& targets) override {
    inputs.resize(std::min<size_t>(inputs.size(), 1));
    Tensors outputs = inner_->Forward(std::move(inputs), targets);
    return targets.defined() ? outputs : change_(outputs[0]);
  }

 private:
  const std::unique_ptr<StageModel> inner_;
  const Change change_;
};

StageModelFactory WithOutput(const ChangedOutput::Change& change) {
  return [change](const job::JobSpec& spec, const StageAssignment& stage)
             -> absl::StatusOr<std::unique_ptr<StageModel>> {
    auto model = NewGpt2Stage(spec, stage);
    if (!model.ok()) return model;
    return std::unique_ptr<StageModel>(
        std::make_unique<ChangedOutput>(std::move(model).value(), change));
  };
}

Tensors Tanh(const at::Tensor& output) { return {at::tanh(output)}; }

int64_t Allocated() {
  return AccountingAllocator::Process().Stats().allocated_bytes.current;
}

// Runs stage 0 of a two-stage pipeline forward, alone, and the backward later.
class FirstStage {
 public:
  explicit FirstStage(const ChangedOutput::Change& change)
      : bench_(TinySpec(), 2, 2, WithOutput(change)) {
    EXPECT_TRUE(bench_->BeginStep(StepIndex(0)).ok());
    auto outputs = bench_.engine(0).Forward(kStage, kMicrobatch, {});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    if (outputs.ok()) outputs_ = *outputs;
  }

  std::vector<TensorRef>& outputs() { return outputs_; }
  absl::Status Backward() {
    std::vector<TensorRef> gradients;
    for (const TensorDescriptor& descriptor : gradients_of_) {
      std::shared_ptr<void> memory(
          std::aligned_alloc(64, (descriptor.bytes() / 64 + 1) * 64),
          std::free);
      void* const data = memory.get();
      std::memset(data, 0, descriptor.bytes());
      gradients.push_back(
          bench_.engine(0).Adopt(descriptor, data, std::move(memory)).value());
    }
    return bench_.engine(0)
        .Backward(kStage, kMicrobatch, std::move(gradients))
        .status();
  }
  void ExpectGradientsLikeOutputs() {
    for (const TensorRef& output : outputs_) {
      gradients_of_.push_back(output->descriptor());
    }
  }
  std::string RetainingOp(const void* storage) {
    return bench_.engine(0).RetainingOp(kStage, kMicrobatch, storage);
  }

 private:
  static constexpr StageIndex kStage{0};
  static constexpr MicrobatchIndex kMicrobatch{0};

  TorchBench bench_;
  std::vector<TensorRef> outputs_;
  std::vector<TensorDescriptor> gradients_of_;
};

TEST(TorchMemoryTest, BuildingAllocatesTheFlatBuffersAndNothingElse) {
  StartTorchForTests();
  const int64_t before = Allocated();
  job::JobSpec spec = TinySpec();
  spec.model.vocabulary = 61;
  for (const auto optimizer :
       {job::OptimizerKind::kAdamW, job::OptimizerKind::kSgd}) {
    spec.training.optimizer = optimizer;
    job::StageLayers all;
    all.end = spec.model.layers;
    int64_t bytes = 0;
    for (const job::ParameterShape& shape : job::StageParameters(spec, all)) {
      bytes += (shape.elements() + 15) / 16 * 16 * 4;
    }
    const TorchBench bench(spec, 1, 1);
    EXPECT_EQ(CurrentBytes(Category::kParameter), bytes);
    EXPECT_EQ(CurrentBytes(Category::kGradient), bytes);
    EXPECT_EQ(CurrentBytes(Category::kOptimizer),
              optimizer == job::OptimizerKind::kAdamW ? 2 * bytes + 4 : 0);
    EXPECT_EQ(Allocated() - before,
              2 * bytes + CurrentBytes(Category::kOptimizer));
  }
  EXPECT_EQ(Allocated(), before) << "all of it goes with the engine";
}

TEST(TorchMemoryTest, FrozenParametersHaveNeitherGradientsNorAverages) {
  StartTorchForTests();
  job::JobSpec spec = TinySpec();
  spec.training.freeze = {"transformer.wte.", "transformer.h.1."};
  job::StageLayers all;
  all.end = spec.model.layers;
  int64_t bytes = 0;
  int64_t trained = 0;
  for (const job::ParameterShape& shape : job::StageParameters(spec, all)) {
    const int64_t padded = (shape.elements() + 15) / 16 * 16 * 4;
    bytes += padded;
    if (!job::IsFrozen(spec.training, shape.name)) trained += padded;
  }
  const TorchBench bench(spec, 1, 1);
  EXPECT_LT(trained, bytes);
  EXPECT_EQ(CurrentBytes(Category::kParameter), bytes);
  EXPECT_EQ(CurrentBytes(Category::kGradient), trained);
  EXPECT_EQ(CurrentBytes(Category::kOptimizer), 2 * trained + 4);
}

// No backward needs it.
TEST(TorchMemoryTest, AFrozenFirstStageKeepsNothingOfItsForward) {
  job::JobSpec spec = TinySpec();
  spec.training.freeze = {"transformer.w", "transformer.h.0."};
  for (const char* recompute : {"none", "every-1"}) {
    spec.memory.recompute = recompute;
    TorchBench bench(spec, 4, 4);
    ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
    auto outputs =
        bench.engine(0).Forward(StageIndex(0), MicrobatchIndex(0), {});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    const TensorDescriptor descriptor = (*outputs)[0]->descriptor();
    EXPECT_EQ(CurrentBytes(Category::kActivation), descriptor.bytes());
    outputs->clear();
    EXPECT_EQ(CurrentBytes(Category::kActivation), 0);
  }
}

TEST(TorchMemoryTest, AStepLeavesNothingBehind) {
  TorchBench bench(TinySpec(), 4, 2);
  const int64_t built = Allocated();
  for (int step = 0; step < 10; ++step) {
    bench.Step(step);
    EXPECT_EQ(Allocated(), built) << "after step " << step;
    EXPECT_EQ(CurrentBytes(Category::kActivation), 0);
    EXPECT_EQ(CurrentBytes(Category::kWorkspace), 0);
    EXPECT_EQ(CurrentBytes(Category::kWireSend), 0);
  }
}

// The peak of activations over one step, after a step of warming up.
int64_t ActivationPeak(int microbatches, ActionList (*order)(int, int)) {
  job::JobSpec spec = TinySpec();
  spec.training.microbatches = microbatches;
  TorchBench bench(spec, 4, 4);
  bench.Step(0);
  AccountingAllocator::Process().ResetPeaks();
  const auto step = bench->RunStep(StepIndex(1), order(4, microbatches));
  EXPECT_TRUE(step.ok()) << step.status();
  return PeakBytes(Category::kActivation);
}

TEST(TorchMemoryTest, PeakFollowsWhatIsInFlightAndNotTheMicrobatches) {
  const int64_t eight = ActivationPeak(8, OneForwardOneBackwardOrder);
  EXPECT_EQ(ActivationPeak(24, OneForwardOneBackwardOrder), eight);
  EXPECT_GT(ActivationPeak(24, GpipeOrder), 2 * eight);
}

TEST(TorchMemoryTest, ActivationsAreAccountedByStage) {
  TorchBench bench(TinySpec(), 2, 2);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  ASSERT_TRUE(
      bench.engine(0).Forward(StageIndex(0), MicrobatchIndex(0), {}).ok());
  const auto stats = AccountingAllocator::Process().Stats();
  const int64_t activation = CurrentBytes(Category::kActivation);
  EXPECT_GT(activation, 0);
  ASSERT_EQ(stats.stage_activation_bytes.count(StageIndex(0)), 1u);
  EXPECT_EQ(stats.stage_activation_bytes.at(StageIndex(0)), activation);
  bench.engine(0).Drop();
  EXPECT_EQ(CurrentBytes(Category::kActivation), 0);
}

// The outputs of a stage that ends in tanh stay for its backward, and are known
// to.
TEST(TorchMemoryTest, NamesTheOpThatRetainsAnOutput) {
  FirstStage stage(Tanh);
  stage.ExpectGradientsLikeOutputs();
  const auto watch = stage.outputs()[0]->watch();
  const void* const storage = stage.outputs()[0]->storage();
  stage.outputs().clear();
  EXPECT_FALSE(watch->freed());
  EXPECT_EQ(stage.RetainingOp(storage), "TanhBackward0");
  EXPECT_TRUE(stage.Backward().ok());
  EXPECT_TRUE(watch->freed());
  EXPECT_EQ(stage.RetainingOp(storage), "");
}

TEST(TorchMemoryTest, AStageThatEndsInTanhTrainsToTheSameBits) {
  const auto train = [](int engines) {
    TorchBench bench(TinySpec(), 4, engines, WithOutput(Tanh));
    for (int step = 0; step < 3; ++step) bench.Step(step);
    std::string all;
    const auto digests = bench->Digests();
    for (const ParameterDigest& digest : *digests) all += digest.sha256;
    return all;
  };
  EXPECT_EQ(train(4), train(1));
}

// Views and other shapes that bytes alone do not carry are copied, and the
// original goes at once.
TEST(TorchMemoryTest, CopiesOutputsThatCannotLeaveAsTheyAre) {
  const std::vector<std::pair<const char*, ChangedOutput::Change>> changes = {
      {"transposed",
       [](const at::Tensor& x) { return Tensors{x.transpose(0, 1)}; }},
      {"part", [](const at::Tensor& x) { return Tensors{x.narrow(2, 0, 8)}; }},
      {"expanded",
       [](const at::Tensor& x) {
         return Tensors{x.sum(-1, true).expand({2, 16, 32})};
       }},
      {"chunks", [](const at::Tensor& x) { return x.chunk(2, -1); }}};
  for (const auto& [name, change] : changes) {
    SCOPED_TRACE(name);
    FirstStage stage(change);
    stage.ExpectGradientsLikeOutputs();
    int64_t bytes = 0;
    std::vector<std::shared_ptr<const memory::BlockWatch>> watches;
    for (const TensorRef& output : stage.outputs()) {
      bytes += static_cast<int64_t>(output->descriptor().bytes());
      watches.push_back(output->watch());
    }
    EXPECT_EQ(CurrentBytes(Category::kWireSend), bytes);
    stage.outputs().clear();
    EXPECT_EQ(CurrentBytes(Category::kWireSend), 0);
    for (const auto& watch : watches) EXPECT_TRUE(watch->freed());
    EXPECT_TRUE(stage.Backward().ok());
    EXPECT_EQ(CurrentBytes(Category::kActivation), 0);
  }
}

TEST(TorchMemoryTest, AWholeOutputLeavesWithoutACopy) {
  FirstStage stage([](const at::Tensor& x) { return Tensors{x}; });
  EXPECT_EQ(CurrentBytes(Category::kWireSend), 0);
  const auto watch = stage.outputs()[0]->watch();
  stage.outputs().clear();
  EXPECT_TRUE(watch->freed());
}

// A stage that hands its received input on must not hand on the slot.
TEST(TorchMemoryTest, AReceivedSlotIsNeverSentOn) {
  class Identity final : public StageModel {
   public:
    std::vector<StageParameter*> parameters() override { return {}; }
    Tensors Forward(Tensors inputs, const at::Tensor&) override {
      return inputs;
    }
  };
  TorchBench bench(
      TinySpec(), 3, 3,
      [](const job::JobSpec& spec, const StageAssignment& stage)
          -> absl::StatusOr<std::unique_ptr<StageModel>> {
        if (stage.first || stage.last) {
          return NewGpt2Stage(spec, stage);
        }
        return std::unique_ptr<StageModel>(std::make_unique<Identity>());
      });
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  TensorDescriptor descriptor;
  descriptor.shape = {2, 16, 32};
  const auto slot = [&](std::weak_ptr<void>* held) {
    std::shared_ptr<void> memory(std::aligned_alloc(64, 4096), std::free);
    *held = memory;
    std::memset(memory.get(), 0, 4096);
    void* const data = memory.get();
    return bench.engine(1).Adopt(descriptor, data, std::move(memory)).value();
  };
  std::weak_ptr<void> held;
  const auto outputs =
      bench.engine(1).Forward(StageIndex(1), MicrobatchIndex(0), {slot(&held)});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_NE((*outputs)[0]->watch(), nullptr);
  EXPECT_TRUE(held.expired()) << "no op saved the input";
  const auto gradients = bench.engine(1).Backward(
      StageIndex(1), MicrobatchIndex(0), {slot(&held)});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_NE((*gradients)[0]->watch(), nullptr);
  EXPECT_TRUE(held.expired());
}

}  // namespace
}  // namespace stagecoach::worker
