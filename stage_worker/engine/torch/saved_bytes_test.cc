#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "job/boundary.h"
#include "stage_worker/engine/memory_profiler.h"
#include "stage_worker/engine/torch/torch_test_util.h"

// What ops keep for their backwards: the walk over autograd's graph and the
// allocator agree to the byte, and a profile of one microbatch says it ahead.
namespace stagecoach::worker {
namespace {

using memory::AccountingAllocator;
using memory::Category;

constexpr StageIndex kStage{1};
constexpr MicrobatchIndex kMicrobatch{0};

// A tensor of a peer.
TensorRef Received(StageEngine& engine, const job::JobSpec& spec) {
  const TensorDescriptor descriptor = job::BoundaryOf(spec).tensors[0];
  std::shared_ptr<void> memory(
      std::aligned_alloc(64, (descriptor.bytes() / 64 + 1) * 64), std::free);
  std::memset(memory.get(), 0, descriptor.bytes());
  void* const data = memory.get();
  return engine.Adopt(descriptor, data, std::move(memory)).value();
}

int64_t HeldSum(StageEngine& engine) {
  int64_t sum = 0;
  for (const HeldBytes& held : engine.ListHeld()) sum += held.bytes;
  return sum;
}

job::JobSpec SpecOf(const std::string& architecture) {
  job::JobSpec spec = TinySpec();
  if (architecture == "llama")
    spec.model.architecture = job::Architecture::kLlama;
  if (architecture == "aten") {
    spec.training.kernels = job::KernelChoice::kAten;
  }
  if (architecture == "chunked") spec.training.loss_chunk = 5;
  if (architecture == "recomputed") spec.memory.recompute = "full";
  if (architecture == "some_recomputed") spec.memory.recompute = "every-2";
  if (architecture == "layers_recomputed") spec.memory.recompute = "every-1";
  if (architecture == "documents" || architecture == "documents_recomputed") {
    spec.training.kernels = job::KernelChoice::kAten;
    spec.data.documents = "isolated";
    spec.data.document_end = 5;
    spec.model.dropout = 0.2;
  }
  if (architecture == "documents_recomputed") {
    spec.memory.recompute = "every-2";
  }
  return spec;
}

class SavedBytesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SavedBytesTest, AgreeWithTheAllocatorToTheByte) {
  const job::JobSpec spec = SpecOf(GetParam());
  for (const int stage : {0, 1, 2}) {
    SCOPED_TRACE(stage);
    TorchBench bench(spec, 3, 3, NewStageModel);
    ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
    StageEngine& engine = bench.engine(stage);
    std::vector<TensorRef> inputs;
    if (stage > 0) inputs.push_back(Received(engine, spec));
    auto outputs =
        engine.Forward(StageIndex(stage), kMicrobatch, std::move(inputs));
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    outputs->clear();
    EXPECT_EQ(HeldSum(engine), CurrentBytes(Category::kActivation));
    if (spec.memory.recompute == "none") {
      EXPECT_GT(HeldSum(engine), 0);
    } else if (spec.memory.recompute == "full") {
      EXPECT_EQ(HeldSum(engine), 0) << "only the input, in its slot";
    }

    std::vector<TensorRef> gradients;
    if (stage < 2) gradients.push_back(Received(engine, spec));
    auto input_gradients = engine.BackwardInput(StageIndex(stage), kMicrobatch,
                                                std::move(gradients));
    ASSERT_TRUE(input_gradients.ok()) << input_gradients.status();
    input_gradients->clear();
    EXPECT_EQ(HeldSum(engine), CurrentBytes(Category::kActivation))
        << "what the weights' gradients still need";
    ASSERT_TRUE(engine.BackwardWeight(StageIndex(stage), kMicrobatch).ok());
    EXPECT_EQ(HeldSum(engine), 0);
    EXPECT_EQ(CurrentBytes(Category::kActivation), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SavedBytesTest,
                         ::testing::Values("gpt2", "aten", "llama", "chunked",
                                           "recomputed", "some_recomputed",
                                           "layers_recomputed", "documents",
                                           "documents_recomputed"),
                         [](const ::testing::TestParamInfo<const char*>& name) {
                           return std::string(name.param);
                         });

TEST(ListHeldTest, NamesOpsByStageAndMicrobatchTheLargestFirst) {
  TorchBench bench(SpecOf("aten"), 2, 2);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  StageEngine& engine = bench.engine(0);
  for (int m = 0; m < 2; ++m) {
    ASSERT_TRUE(engine.Forward(StageIndex(0), MicrobatchIndex(m), {}).ok());
  }
  const std::vector<HeldBytes> held = engine.ListHeld();
  std::set<std::string> ops;
  std::set<int32_t> microbatches;
  for (size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(held[i].stage, StageIndex(0));
    EXPECT_GT(held[i].tensors, 0);
    ops.insert(held[i].op);
    microbatches.insert(held[i].microbatch.value());
    if (i > 0 && held[i].microbatch == held[i - 1].microbatch) {
      EXPECT_LE(held[i].bytes, held[i - 1].bytes);
    }
  }
  EXPECT_EQ(microbatches, (std::set<int32_t>{0, 1}));
  EXPECT_EQ(ops.count("GeluBackward0"), 1u);
  EXPECT_EQ(ops.count("NativeLayerNormBackward0"), 1u);
  engine.Drop();
  EXPECT_TRUE(engine.ListHeld().empty());
}

TEST(ListHeldTest, AnOwnBlockIsOneOp) {
  TorchBench bench(TinySpec(), 2, 2);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  StageEngine& engine = bench.engine(0);
  ASSERT_TRUE(engine.Forward(StageIndex(0), kMicrobatch, {}).ok());
  std::set<std::string> ops;
  for (const HeldBytes& held : engine.ListHeld()) ops.insert(held.op);
  EXPECT_EQ(ops, (std::set<std::string>{"Embedding", "Gpt2Block"}));
}

// The logits of 32 tokens over 2000 words are 250 KiB, of 4 at a time 31 KiB.
TEST(ChunkedLossTest, LogitsNeverStandWhole) {
  job::JobSpec spec = TinySpec();
  spec.model.vocabulary = 2000;
  const auto peak_of = [&spec](int64_t chunk) {
    spec.training.loss_chunk = chunk;
    TorchBench bench(spec, 2, 2);
    bench.Step(0);
    AccountingAllocator::Process().ResetPeaks();
    const int64_t before = CurrentBytes(Category::kActivation);
    EXPECT_TRUE(bench->BeginStep(StepIndex(1)).ok());
    auto outputs = bench.engine(1).Forward(kStage, kMicrobatch,
                                           {Received(bench.engine(1), spec)});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    bench.engine(1).Drop();
    return PeakBytes(Category::kActivation) - before;
  };
  const int64_t logits = 32 * 2000 * 4;
  EXPECT_GT(peak_of(0), 2 * logits);
  EXPECT_LT(peak_of(4), logits);
}

TEST(MemoryProfilerTest, SaysWhatOneMicrobatchTakesAndChangesNoBit) {
  const job::JobSpec spec = SpecOf("aten");
  TorchBench bench(spec, 2, 2);
  const auto before = bench->Digests();
  ASSERT_TRUE(before.ok());
  PatternData data(spec);
  MemoryProfilerOptions options;
  options.engine = &bench.engine(1);
  options.spec = spec;
  StageAssignment stage;
  stage.stage = kStage;
  stage.layers.begin = 2;
  stage.layers.end = 4;
  stage.last = true;
  options.stages = {stage};
  options.data = &data;
  options.allocator = &AccountingAllocator::Process();
  const auto profile = ProfileWorkerMemory(options);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(CurrentBytes(Category::kActivation), 0);
  EXPECT_EQ(CurrentBytes(Category::kWireReceive), 0);
  const auto after = bench->Digests();
  ASSERT_TRUE(after.ok());
  ASSERT_EQ(after->size(), before->size());
  for (size_t i = 0; i < after->size(); ++i) {
    EXPECT_EQ((*after)[i].sha256, (*before)[i].sha256) << (*after)[i].name;
  }

  ASSERT_EQ(profile->stages.size(), 1u);
  const job::StageMemory& memory = profile->stages[0];
  // The same by hand.
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  AccountingAllocator::Process().ResetPeaks();
  ASSERT_TRUE(
      bench.engine(1)
          .Forward(kStage, kMicrobatch, {Received(bench.engine(1), spec)})
          .ok());
  EXPECT_EQ(memory.retained.Of(Category::kActivation),
            CurrentBytes(Category::kActivation));
  EXPECT_EQ(memory.forward_peak.Of(Category::kActivation),
            PeakBytes(Category::kActivation));
  EXPECT_EQ(memory.output.total, 0) << "the loss is no output";
  EXPECT_TRUE(memory.keeps_input) << "the first norm saved it";
  EXPECT_TRUE(memory.splits);
  EXPECT_GT(memory.kept_for_weight.total, 0);
  EXPECT_LT(memory.kept_for_weight.total, memory.retained.total);
  EXPECT_EQ(profile->norms_peak.total, 0) << "squares are summed in place";
  EXPECT_EQ(profile->update_peak.total, 0) << "AdamW works in place";
  EXPECT_EQ(profile->state_copy_bytes % 4, 0);
  bench.engine(1).Drop();
}

}  // namespace
}  // namespace stagecoach::worker
