// The example plugin, a vision transformer with an autograd function of its
// own: the same bits however it is cut, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "stage_worker/engine/local_pipeline.h"
#include "stage_worker/engine/torch/torch_test_util.h"
#include "stage_worker/model/stage_model.h"
#include "tests/plugin/training.h"

namespace stagecoach::worker {
namespace {

constexpr int64_t kImage = 8;
constexpr int64_t kClasses = 5;

// A bar of light for each class, at a place that changes.
class BarData final : public DataSource {
 public:
  explicit BarData(const job::JobSpec& spec) : spec_(spec) {}

  absl::StatusOr<TokenBatch> Read(StepIndex step,
                                  MicrobatchIndex microbatch) override {
    TokenBatch batch;
    batch.rows = spec_.training.microbatch_size;
    batch.sequence_length = kImage * kImage;
    const int64_t first =
        (step.value() * spec_.training.microbatches + microbatch.value()) *
        batch.rows;
    for (int64_t row = 0; row < batch.rows; ++row) {
      const int64_t sample = first + row;
      const int64_t kind = sample * 7 % kClasses;
      std::vector<int64_t> image(kImage * kImage);
      for (int64_t i = 0; i < kImage * kImage; ++i) {
        const bool lit =
            (i / kImage + sample) % kClasses == kind && i % kImage >= kind / 2;
        image[static_cast<size_t>(i)] = lit ? 230 : (i * 13 + sample) % 40;
      }
      batch.inputs.insert(batch.inputs.end(), image.begin(), image.end());
      image.erase(image.begin());
      image.push_back(kind);
      batch.targets.insert(batch.targets.end(), image.begin(), image.end());
    }
    return batch;
  }
  int64_t samples() const override { return int64_t{1} << 40; }

 private:
  const job::JobSpec spec_;
};

job::JobSpec Spec() {
  job::JobSpec spec = TinySpec();
  spec.model.architecture = job::Architecture::kPlugin;
  spec.model.path = "examples/plugin/vision_transformer.so";
  spec.model.options = "8 4 5";
  spec.model.boundary = {4, 32};
  spec.model.tie_embeddings = false;
  spec.model.vocabulary = 256;
  spec.data.sequence_length = kImage * kImage;
  spec.data.targets = "last";
  spec.training.microbatch_size = 3;
  return spec;
}

// Its own autograd function runs in both halves of a split backward, too.
TEST(PluginTest, TrainsWithTheSameBitsHoweverItIsCut) {
  for (const job::OptimizerKind optimizer :
       {job::OptimizerKind::kAdamW, job::OptimizerKind::kSgd}) {
    job::JobSpec spec = Spec();
    spec.training.optimizer = optimizer;
    BarData data(spec);
    const Trained reference = ExpectSameHoweverCut(spec, &data, 5);
    EXPECT_EQ(reference.digests.size(), 3u + 4 * 12 + 4);
  }
}

TEST(PluginTest, Learns) {
  job::JobSpec spec = Spec();
  spec.training.learning_rate = 3e-3;
  BarData data(spec);
  const Trained trained =
      Train(spec, &data, 2, 2, OneForwardOneBackwardOrder, 60);
  ASSERT_EQ(trained.steps.size(), 60u);
  EXPECT_NEAR(trained.steps.front().loss, std::log(double{kClasses}), 0.8);
  EXPECT_LT(trained.steps.back().loss, 0.5);
}

TEST(PluginTest, RefusesWhatIsNoPlugin) {
  job::JobSpec spec = Spec();
  spec.model.path = "examples/plugin/nothing.so";
  EXPECT_EQ(Refusal(spec).rfind("cannot load model.path: ", 0), 0u)
      << Refusal(spec);
  spec.model.path = "libm.so.6";
  EXPECT_EQ(Refusal(spec),
            "libm.so.6 is no plugin: it has no STAGECOACH_PLUGIN of "
            "stagecoach/plugin.h");
}

TEST(PluginTest, ItsExceptionsAreRefusals) {
  job::JobSpec spec = Spec();
  spec.model.options = "7 4 5";
  const std::string message = Refusal(spec);
  EXPECT_EQ(message.rfind("examples/plugin/vision_transformer.so: "
                          "model.options must be \"image patch classes\"",
                          0),
            0u)
      << message;
}

TEST(PluginTest, AnOutputOfOtherSizesEndsTheStep) {
  job::JobSpec spec = Spec();
  spec.model.boundary = {5, 32};
  BarData data(spec);
  LocalPipeline::Options options;
  options.spec = spec;
  options.stages = options.engines = 2;
  options.factory = TorchFactory(NewStageModel);
  options.data = &data;
  auto pipeline = LocalPipeline::Create(options);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const auto step = (*pipeline)->RunStep(StepIndex(0), GpipeOrder(2, 4));
  EXPECT_NE(step.status().message().find(
                "returned float32[3, 4, 32]; the job says float32[3, 5, 32]"),
            std::string::npos)
      << step.status();
}

}  // namespace
}  // namespace stagecoach::worker
