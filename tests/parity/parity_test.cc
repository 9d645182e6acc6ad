// Models that transformers made, trained here and there: the same losses,
// gradient norms and weights within float32 rounding, and the same bits for any
// number of workers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "stage_worker/engine/local_pipeline.h"
#include "stage_worker/engine/torch/torch_test_util.h"
#include "stage_worker/model/stage_model.h"
#include "tests/parity/reference.h"

namespace stagecoach::parity {
namespace {

using worker::LocalPipeline;
using worker::LocalStep;
using worker::StageModel;
using worker::StageParameter;

// Relative. Runs of transformers itself (other attention kernels, two threads,
// weights moved by one rounding) are up to 3e-7 apart in losses, 1e-7 in the
// norm of the first step's gradient, and 4e-5 in later ones: there AdamW's
// division has made rounding noise visible.
constexpr double kLossTolerance = 2e-6;
constexpr double kFirstNormTolerance = 1e-6;
constexpr double kLaterNormTolerance = 1e-4;
// Of a final weight: this, and 20 times the spread of transformers' own runs.
constexpr double kWeightTolerance = 1e-5;
constexpr double kSpreads = 20;

// What a training here gave.
struct Trained {
  std::vector<LocalStep> steps;
  std::map<std::string, double> first_gradient_norms;
  std::map<std::string, std::vector<float>> final_values;
  std::vector<std::string> digests;
};

std::vector<float> ValueOf(const StageParameter& parameter) {
  const float* const data = parameter.value.const_data_ptr<float>();
  return std::vector<float>(data, data + parameter.value.numel());
}

Reference Load(const std::string& name) {
  auto reference = LoadReference("tests/parity/data/" + name);
  EXPECT_TRUE(reference.ok()) << reference.status();
  return reference.ok() ? *std::move(reference) : Reference();
}

void RunSteps(const Reference& reference, int stages,
              const std::vector<StageModel*>& models, LocalPipeline& pipeline,
              Trained* trained) {
  const auto order = worker::OneForwardOneBackwardOrder(
      stages, static_cast<int>(reference.spec.training.microbatches));
  for (size_t i = 0; i < reference.steps.size(); ++i) {
    auto step = pipeline.RunStep(StepIndex(static_cast<int64_t>(i)), order);
    ASSERT_TRUE(step.ok()) << step.status();
    trained->steps.push_back(*step);
  }
  for (StageModel* model : models) {
    for (const StageParameter* parameter : model->parameters()) {
      if (parameter->tied_copy) continue;
      trained->final_values[parameter->name] = ValueOf(*parameter);
      trained->first_gradient_norms[parameter->name] = std::sqrt(
          trained->steps[0].squared_norms.at(parameter->global_index));
    }
  }
  const auto digests = pipeline.Digests();
  ASSERT_TRUE(digests.ok()) << digests.status();
  for (const auto& digest : *digests) {
    trained->digests.push_back(digest.name + " " + digest.sha256);
  }
}

// `stages` stages on as many engines.
Trained Train(const Reference& reference, int stages) {
  ReferenceData data(reference);
  std::vector<StageModel*> models;
  LocalPipeline::Options options;
  options.spec = reference.spec;
  options.stages = stages;
  options.engines = stages;
  options.data = &data;
  options.factory =
      worker::TorchFactory([&models](const auto& spec, const auto& stage) {
        auto model = worker::NewStageModel(spec, stage);
        if (model.ok()) models.push_back(model->get());
        return model;
      });
  auto pipeline = LocalPipeline::Create(options);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  Trained trained;
  if (pipeline.ok()) RunSteps(reference, stages, models, **pipeline, &trained);
  return trained;
}

double RelativeDifference(double a, double b) { return std::fabs(a / b - 1); }

// The largest differences.
double LossDifference(const Trained& trained, const Reference& reference) {
  const job::JobSpec& spec = reference.spec;
  const double tokens = static_cast<double>(spec.training.microbatch_size *
                                            spec.data.sequence_length);
  double worst = 0;
  for (size_t i = 0; i < trained.steps.size(); ++i) {
    const std::vector<double>& expected = reference.steps[i].microbatch_losses;
    EXPECT_EQ(trained.steps[i].loss_sums.size(), expected.size());
    for (size_t m = 0; m < expected.size(); ++m) {
      worst = std::max(
          worst, RelativeDifference(trained.steps[i].loss_sums.at(m) / tokens,
                                    expected[m]));
    }
  }
  return worst;
}

double NormDifference(const Trained& trained, const Reference& reference,
                      size_t begin, size_t end) {
  double worst = 0;
  for (size_t i = begin; i < end; ++i) {
    worst =
        std::max(worst, RelativeDifference(trained.steps[i].gradient_norm,
                                           reference.steps[i].gradient_norm));
  }
  return worst;
}

// Relative to the norm of all gradients: some are zero but for rounding.
double ParameterNormDifference(const Trained& trained,
                               const Reference& reference) {
  EXPECT_EQ(trained.first_gradient_norms.size(), reference.parameters.size());
  double worst = 0;
  for (const auto& [name, norm] : trained.first_gradient_norms) {
    worst = std::max(
        worst,
        std::fabs(norm - reference.parameters.at(name).first_gradient_norm) /
            reference.steps[0].gradient_norm);
  }
  return worst;
}

double WeightDifference(const std::vector<float>& a,
                        const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    worst =
        std::max(worst, std::fabs(static_cast<double>(a[i]) - double{b[i]}));
  }
  return worst;
}

double ExpectWeights(const Trained& trained, const Reference& reference) {
  double worst = 0;
  for (const auto& [name, value] : trained.final_values) {
    const Reference::Parameter& expected = reference.parameters.at(name);
    const double off = WeightDifference(value, expected.final_value);
    EXPECT_LE(off, kWeightTolerance + kSpreads * expected.final_spread) << name;
    worst = std::max(worst, off);
  }
  return worst;
}

class ParityTest : public testing::TestWithParam<
                       std::tuple<const char*, job::KernelChoice>> {};

TEST_P(ParityTest, TrainsAsTransformersDoes) {
  const char* const name = std::get<0>(GetParam());
  Reference reference = Load(name);
  reference.spec.training.kernels = std::get<1>(GetParam());
  const Trained single = Train(reference, 1);
  ASSERT_EQ(single.steps.size(), reference.steps.size());
  const double loss = LossDifference(single, reference);
  const double first = NormDifference(single, reference, 0, 1);
  const double later =
      NormDifference(single, reference, 1, single.steps.size());
  const double parameter_norm = ParameterNormDifference(single, reference);
  EXPECT_LE(loss, kLossTolerance);
  EXPECT_LE(first, kFirstNormTolerance);
  EXPECT_LE(later, kLaterNormTolerance);
  EXPECT_LE(parameter_norm, kFirstNormTolerance);
  const double weight = ExpectWeights(single, reference);
  std::printf(
      "%s: largest differences: loss %.1e, first gradient norm %.1e, later "
      "ones %.1e, a parameter's first %.1e, a weight %.1e\n",
      name, loss, first, later, parameter_norm, weight);
  for (const int stages : {2, 4}) {
    const Trained cut = Train(reference, stages);
    ASSERT_EQ(cut.steps.size(), single.steps.size());
    for (size_t i = 0; i < cut.steps.size(); ++i) {
      EXPECT_EQ(cut.steps[i].loss_sums, single.steps[i].loss_sums);
      EXPECT_EQ(cut.steps[i].gradient_norm, single.steps[i].gradient_norm);
    }
    EXPECT_EQ(cut.digests, single.digests) << stages << " stages";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, ParityTest,
    testing::Combine(
        testing::Values("gpt2_tied", "gpt2_untied", "gpt2_variant",
                        "llama_gqa_tied",
                        "llama_gqa_untied_headdim_legacyconfig",
                        "llama_gqa_sharded", "llama_rope_llama3",
                        "llama_linear_biases", "llama_dynamic",
                        "llama_yarn_legacyconfig", "mistral_sliding",
                        "qwen2_bias_tied", "qwen3_norms_sliding"),
        testing::Values(job::KernelChoice::kAten, job::KernelChoice::kOneDnn)),
    [](const testing::TestParamInfo<ParityTest::ParamType>& model) {
      const bool own = std::get<1>(model.param) != job::KernelChoice::kAten;
      return std::string(std::get<0>(model.param)) + (own ? "_own" : "_aten");
    });

// What the others would not notice: that the tolerances let anything through.
TEST(ParityToleranceTest, AnotherEpsilonOrThetaIsSeen) {
  Reference epsilon = Load("llama_gqa_tied");
  epsilon.spec.model.config->norm_epsilon *= 2;
  EXPECT_GT(LossDifference(Train(epsilon, 1), epsilon), kLossTolerance);
  Reference theta = Load("llama_gqa_tied");
  theta.spec.model.config->rope.theta *= 1.1;
  EXPECT_GT(LossDifference(Train(theta, 1), theta), kLossTolerance);
}

}  // namespace
}  // namespace stagecoach::parity
