#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "stage_worker/engine/torch/torch_engine.h"
#include "stage_worker/engine/torch/torch_test_util.h"

namespace stagecoach::worker {
namespace {

using absl::StatusCode;

// The job's model, with the stages it is made of in reach.
struct SpiedModels {
  std::vector<StageModel*> models;

  StageModelFactory Factory() {
    return [this](const job::JobSpec& spec, const StageAssignment& stage)
               -> absl::StatusOr<std::unique_ptr<StageModel>> {
      auto model = NewStageModel(spec, stage);
      if (model.ok()) models.push_back(model->get());
      return model;
    };
  }
};

TEST(TrainingTest, AnUntrainedModelGuesses) {
  const job::JobSpec spec = TinySpec();
  const double loss = TorchBench(spec, 2, 2).Step(0).loss;
  EXPECT_NEAR(loss, std::log(static_cast<double>(spec.model.vocabulary)), 0.05);
}

TEST(TrainingTest, LearnsARepetitiveText) {
  for (const auto& [architecture, optimizer] :
       std::vector<std::pair<job::Architecture, job::OptimizerKind>>{
           {job::Architecture::kGpt2, job::OptimizerKind::kAdamW},
           {job::Architecture::kGpt2, job::OptimizerKind::kSgd},
           {job::Architecture::kLlama, job::OptimizerKind::kAdamW}}) {
    job::JobSpec spec = TinySpec();
    spec.model.architecture = architecture;
    spec.training.optimizer = optimizer;
    const bool sgd = optimizer == job::OptimizerKind::kSgd;
    if (sgd) spec.training.learning_rate = 1;
    TorchBench bench(spec, 2, 2);
    const double first = bench.Step(0).loss;
    double last = first;
    for (int step = 1; step < 60; ++step) last = bench.Step(step).loss;
    EXPECT_LT(last, first - 1) << (sgd ? "sgd" : "adamw");
  }
}

// Moves each parameter along its gradient g: the loss must change by
// epsilon * |g|^2 and, to second order, by nothing else.
TEST(TrainingTest, GradientsAgreeWithDifferenceQuotients) {
  job::JobSpec spec = TinySpec();
  spec.model.layers = 2;
  spec.model.hidden = 16;
  spec.model.tie_embeddings = false;
  spec.training.gradient_clip = 0;
  SpiedModels spied;
  TorchBench bench(spec, 2, 2, spied.Factory());
  const ActionList order = GpipeOrder(2, 4);
  const auto loss = [&] {
    // The same samples each time: a step that never ends.
    EXPECT_TRUE(bench->BeginStep(StepIndex(0)).ok());
    EXPECT_TRUE(bench->RunActions(order).ok());
    double sum = 0;
    for (const int stage : {0, 1}) {
      const auto report = bench.engine(stage).FinishGradients();
      for (const MicrobatchLoss& part : report->losses) sum += part.loss_sum;
    }
    return sum / (4 * 2 * 16);
  };
  // Away from the start, where the residual projections' inputs hardly matter.
  for (int step = 0; step < 5; ++step) bench.Step(step);
  loss();
  std::vector<at::Tensor> gradients;
  std::vector<StageParameter*> parameters;
  for (StageModel* model : spied.models) {
    for (StageParameter* parameter : model->parameters()) {
      parameters.push_back(parameter);
      gradients.push_back(parameter->gradient.clone());
    }
  }
  ASSERT_EQ(parameters.size(), 2u + 2 * 12 + 3);
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const double norm = gradients[i].norm().item<double>();
    ASSERT_GT(norm, 0) << parameters[i]->name;
    const at::Tensor original = parameters[i]->value.detach().clone();
    const double step = 1e-2 / norm;
    parameters[i]->value.copy_(original + gradients[i] * step);
    const double above = loss();
    parameters[i]->value.copy_(original - gradients[i] * step);
    const double below = loss();
    parameters[i]->value.copy_(original);
    const double slope = (above - below) / 2e-2;
    EXPECT_NEAR(slope / norm, 1, 0.03) << parameters[i]->name;
  }
}

TEST(TrainingTest, TiedLeavesStayEqual) {
  for (const int engines : {1, 2}) {
    SpiedModels spied;
    TorchBench bench(TinySpec(), 2, engines, spied.Factory());
    const at::Tensor head = spied.models.back()->parameters().back()->value;
    const at::Tensor embedding =
        spied.models.front()->parameters().front()->value;
    ASSERT_EQ(head.sizes(), embedding.sizes());
    EXPECT_TRUE(at::equal(head, embedding)) << "at the start";
    const at::Tensor before = embedding.detach().clone();
    for (int step = 0; step < 3; ++step) bench.Step(step);
    EXPECT_TRUE(at::equal(head, embedding)) << engines << " engines";
    EXPECT_FALSE(at::equal(before, embedding));
  }
}

TEST(TrainingTest, GradientsAreScaledByTheStepsTokens) {
  // Twice the target tokens: half the gradient, and so a quarter of each
  // square.
  std::vector<double> squares;
  for (const int64_t tokens : {128, 256}) {
    TorchBench bench(TinySpec(), 1, 1);
    ASSERT_TRUE(bench.engine(0).BeginStep(StepIndex(0), tokens).ok());
    ASSERT_TRUE(bench->RunActions(GpipeOrder(1, 4)).ok());
    auto report = bench.engine(0).FinishGradients();
    ASSERT_TRUE(report.ok()) << report.status();
    squares.push_back(report->norms[5].squared);
  }
  EXPECT_NEAR(squares[0] / squares[1], 4, 1e-4);
}

TEST(TrainingTest, TellsThatNumbersAreNotFinite) {
  SpiedModels spied;
  TorchBench bench(TinySpec(), 2, 2, spied.Factory());
  {
    const at::NoGradGuard no_grad;
    // The bias of the last layer norm: the gradient arrives everywhere.
    spied.models.back()->parameters()[25]->value.fill_(
        std::numeric_limits<float>::infinity());
  }
  EXPECT_FALSE(bench.Step(0).all_finite);
}

TEST(TrainingTest, EvaluationKeepsNoGraphAndChangesNothing) {
  const job::JobSpec spec = TinySpec();
  TorchBench bench(spec, 2, 2);
  const auto before = bench->Digests();
  PatternData data(spec);
  // The samples of step 0, whatever step it comes before.
  const auto loss =
      bench->Evaluate(StepIndex(7), &data, spec.training.microbatches);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_EQ(CurrentBytes(memory::Category::kActivation), 0);
  const auto after = bench->Digests();
  for (size_t i = 0; i < before->size(); ++i) {
    EXPECT_EQ((*before)[i].sha256, (*after)[i].sha256);
  }
  EXPECT_EQ(*loss, bench.Step(0).loss);
}

// ---- what is refused --------------------------------------------------------

absl::Status BuildStatus(const job::JobSpec& spec, bool with_data = true) {
  StartTorchForTests();
  PatternData data(spec);
  EngineOptions options;
  options.spec = spec;
  options.data = with_data ? &data : nullptr;
  StageAssignment stage;
  stage.layers.end = spec.model.layers;
  stage.first = true;
  stage.last = true;
  options.stages = {stage};
  return NewTorchEngine(TorchOptions(), options).status();
}

TEST(TrainingTest, RefusesACheckpointWithoutWeights) {
  job::JobSpec checkpoint = TinySpec();
  checkpoint.model.checkpoint = "/nowhere";
  const absl::Status status = BuildStatus(checkpoint);
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("/nowhere"), std::string::npos) << status;
}

TEST(TrainingTest, RefusesOptionsThatCannotWork) {
  EXPECT_TRUE(BuildStatus(TinySpec()).ok());
  job::JobSpec heads = TinySpec();
  heads.model.heads = 5;
  EXPECT_EQ(BuildStatus(heads).code(), StatusCode::kInvalidArgument);
  job::JobSpec threads = TinySpec();
  threads.training.threads = 0;
  EXPECT_EQ(BuildStatus(threads).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(BuildStatus(TinySpec(), /*with_data=*/false).code(),
            StatusCode::kInvalidArgument);
}

TEST(TrainingTest, KnowsItsVersion) { EXPECT_EQ(TorchVersion(), "2.11.0"); }

}  // namespace
}  // namespace stagecoach::worker
