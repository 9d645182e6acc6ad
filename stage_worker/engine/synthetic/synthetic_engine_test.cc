#include "stage_worker/engine/synthetic/synthetic_engine.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory/accounting_allocator.h"
#include "stage_worker/engine/local_pipeline.h"

namespace stagecoach::worker {
namespace {

using absl::StatusCode;
using memory::AccountingAllocator;
using memory::Category;

int64_t Current(const AccountingAllocator& allocator, Category category) {
  return allocator.Stats().categories[static_cast<size_t>(category)].current;
}

class SyntheticEngineTest : public ::testing::Test {
 protected:
  // Two stages, one engine each.
  std::unique_ptr<LocalPipeline> NewPipeline(
      const SyntheticOptions& synthetic,
      const job::JobSpec& spec = TinySpec()) {
    LocalPipeline::Options options;
    options.spec = spec;
    options.stages = 2;
    options.engines = 2;
    options.factory = [this, synthetic](const EngineOptions& engine) {
      return NewSyntheticEngine(synthetic, &allocator_, engine);
    };
    auto pipeline = LocalPipeline::Create(options);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    return std::move(pipeline).value();
  }

  absl::StatusOr<std::vector<TensorRef>> Forward(
      LocalPipeline& pipeline, int stage, std::vector<TensorRef> inputs = {}) {
    return pipeline.engine(StageIndex(stage))
        .Forward(StageIndex(stage), MicrobatchIndex(0), std::move(inputs));
  }
  // Stage 0's output for microbatch 0 of step 0.
  TensorRef Output(LocalPipeline& pipeline) {
    EXPECT_TRUE(pipeline.BeginStep(StepIndex(0)).ok());
    auto outputs = Forward(pipeline, 0);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return (*outputs)[0];
  }

  AccountingAllocator allocator_;
};

TEST_F(SyntheticEngineTest, TheBoundaryHasTheModelsSizesUnlessScripted) {
  auto plain = NewPipeline(SyntheticOptions());
  EXPECT_EQ(Output(*plain)->descriptor().ToString(), "float32[2, 16, 32]");
  SyntheticOptions synthetic;
  synthetic.boundary_bytes = 1001;
  auto scripted = NewPipeline(synthetic);
  EXPECT_EQ(Output(*scripted)->descriptor().ToString(), "uint8[1001]");
  scripted->engine(StageIndex(0)).Drop();
  scripted->engine(StageIndex(1)).Drop();
  const auto step =
      scripted->RunStep(StepIndex(1), OneForwardOneBackwardOrder(2, 4));
  EXPECT_TRUE(step.ok()) << step.status();
}

TEST_F(SyntheticEngineTest, AnActionFailsAsScripted) {
  std::vector<std::string> seen;
  SyntheticOptions synthetic;
  synthetic.before_action = [&seen](const schedule::Action& action) {
    seen.push_back(schedule::ToString(action));
    return seen.back() == "1B1" ? absl::ResourceExhaustedError("scripted")
                                : absl::OkStatus();
  };
  auto pipeline = NewPipeline(synthetic);
  ASSERT_TRUE(pipeline->BeginStep(StepIndex(0)).ok());
  const absl::Status status =
      pipeline->RunActions(OneForwardOneBackwardOrder(2, 2));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(seen, (std::vector<std::string>{"0F0", "1F0", "0F1", "1B0", "0B0",
                                            "1F1", "1B1"}));
}

TEST_F(SyntheticEngineTest, AnOverwrittenActivationChangesTheLoss) {
  const auto loss = [this](int flipped_byte) {
    auto pipeline = NewPipeline(SyntheticOptions());
    const TensorRef output = Output(*pipeline);
    if (flipped_byte >= 0) {
      const_cast<uint8_t*>(
          static_cast<const uint8_t*>(output->data()))[flipped_byte] ^= 1;
    }
    EXPECT_TRUE(Forward(*pipeline, 1, {output}).ok());
    auto& last = pipeline->engine(StageIndex(1));
    EXPECT_TRUE(last.Backward(StageIndex(1), MicrobatchIndex(0), {}).ok());
    return last.FinishGradients()->losses[0].loss_sum;
  };
  const double right = loss(-1);
  EXPECT_EQ(loss(-1), right);
  EXPECT_NE(loss(0), right);
  EXPECT_NE(loss(4095), right);
}

TEST_F(SyntheticEngineTest, AWrongGradientIsAnError) {
  auto pipeline = NewPipeline(SyntheticOptions());
  const TensorRef output = Output(*pipeline);
  // The output itself is no gradient.
  EXPECT_EQ(pipeline->engine(StageIndex(0))
                .Backward(StageIndex(0), MicrobatchIndex(0), {output})
                .status()
                .code(),
            StatusCode::kDataLoss);
}

TEST_F(SyntheticEngineTest, AccumulationInAnotherOrderIsAnotherResult) {
  const auto digest = [this](bool swapped) {
    auto pipeline = NewPipeline(SyntheticOptions());
    ActionList order = GpipeOrder(2, 2);
    if (swapped) {
      order.clear();
      for (const char* action :
           {"0F0", "0F1", "1F0", "1F1", "1B1", "0B1", "1B0", "0B0"}) {
        order.emplace_back();
        EXPECT_TRUE(schedule::ParseAction(action, &order.back()));
      }
    }
    EXPECT_TRUE(pipeline->RunStep(StepIndex(0), order).ok());
    return pipeline->Digests()->back().sha256;
  };
  EXPECT_EQ(digest(false), digest(false));
  EXPECT_NE(digest(false), digest(true));
}

TEST_F(SyntheticEngineTest, ARetainingStageKeepsItsOutputUntilTheBackward) {
  SyntheticOptions synthetic;
  synthetic.retaining_stages = {StageIndex(0)};
  auto pipeline = NewPipeline(synthetic);
  TensorRef output = Output(*pipeline);
  ASSERT_TRUE(Forward(*pipeline, 1, {output}).ok());
  auto gradients = pipeline->engine(StageIndex(1))
                       .Backward(StageIndex(1), MicrobatchIndex(0), {});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const auto watch = output->watch();
  const void* const storage = output->storage();
  output = nullptr;
  auto& first = pipeline->engine(StageIndex(0));
  EXPECT_FALSE(watch->freed());
  EXPECT_EQ(first.RetainingOp(StageIndex(0), MicrobatchIndex(0), storage),
            "TanhBackward0");
  EXPECT_EQ(first.RetainingOp(StageIndex(0), MicrobatchIndex(1), storage), "");
  ASSERT_TRUE(
      first.Backward(StageIndex(0), MicrobatchIndex(0), *gradients).ok());
  EXPECT_TRUE(watch->freed());
}

TEST_F(SyntheticEngineTest, ALeakedOutputStaysThoughNoOpNamesIt) {
  SyntheticOptions synthetic;
  synthetic.leak_output_at = 1;
  auto pipeline = NewPipeline(synthetic);
  TensorRef output = Output(*pipeline);
  const auto watch = output->watch();
  const void* const storage = output->storage();
  output = nullptr;
  EXPECT_FALSE(watch->freed());
  EXPECT_EQ(pipeline->engine(StageIndex(0))
                .RetainingOp(StageIndex(0), MicrobatchIndex(0), storage),
            "");
  pipeline->engine(StageIndex(0)).Drop();
  EXPECT_FALSE(watch->freed());
  pipeline.reset();
  EXPECT_TRUE(watch->freed());
}

TEST_F(SyntheticEngineTest, AccountsEveryByteItHolds) {
  {
    auto pipeline = NewPipeline(SyntheticOptions());
    // A weight for each stage and both leaves of the tied one.
    EXPECT_EQ(Current(allocator_, Category::kParameter), 4 * 8);
    EXPECT_EQ(Current(allocator_, Category::kGradient), 4 * 8);
    EXPECT_EQ(Current(allocator_, Category::kOptimizer), 4 * 8);
    EXPECT_EQ(Current(allocator_, Category::kActivation), 0);
    const TensorRef output = Output(*pipeline);
    // The output, and the input that its backward needs.
    EXPECT_EQ(Current(allocator_, Category::kActivation), 2 * 4096);
    EXPECT_EQ(allocator_.Stats().stage_activation_bytes[StageIndex(0)],
              2 * 4096);
  }
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 0);
}

TEST_F(SyntheticEngineTest, ReportsThatMemoryIsShort) {
  AccountingAllocator::Options options;
  options.limit_bytes = 6000;
  allocator_.Configure(options);
  auto pipeline = NewPipeline(SyntheticOptions());
  ASSERT_TRUE(pipeline->BeginStep(StepIndex(2)).ok());
  const absl::Status status = Forward(*pipeline, 0).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(
      status.message().find("stage 0, step 2, microbatch 0: out of memory"), 0u)
      << status;
}

TEST_F(SyntheticEngineTest, EvaluationKeepsNothingAndChangesNothing) {
  auto pipeline = NewPipeline(SyntheticOptions());
  const auto before = pipeline->Digests()->front().sha256;
  PatternData data(TinySpec());
  const auto loss = pipeline->Evaluate(StepIndex(0), &data, 3);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_GT(*loss, 0);
  EXPECT_EQ(Current(allocator_, Category::kActivation), 0);
  EXPECT_EQ(pipeline->Digests()->front().sha256, before);
}

TEST_F(SyntheticEngineTest, RefusesABoundaryWithoutBytes) {
  EngineOptions options;
  options.spec.data.sequence_length = 0;
  EXPECT_EQ(NewSyntheticEngine(SyntheticOptions(), &allocator_, options)
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stagecoach::worker
