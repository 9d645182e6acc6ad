// A TorchScript file as Python writes it, with dropout: the same bits however
// it is cut, and what is refused.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "stage_worker/engine/local_pipeline.h"
#include "stage_worker/engine/torch/torch_test_util.h"
#include "stage_worker/model/stage_model.h"
#include "tests/plugin/training.h"

namespace stagecoach::worker {
namespace {

using torch::jit::Module;

constexpr int64_t kVocabulary = 64;

job::JobSpec Spec() {
  job::JobSpec spec = TinySpec();
  spec.model.architecture = job::Architecture::kTorchScript;
  spec.model.path = "tests/plugin/data/convolutions.pt";
  spec.model.layers = 4;
  spec.model.hidden = 16;
  spec.model.heads = 0;
  spec.model.vocabulary = kVocabulary;
  spec.model.tie_embeddings = false;
  return spec;
}

TEST(TorchScriptTest, TrainsWithTheSameBitsHoweverItIsCut) {
  const job::JobSpec spec = Spec();
  PatternData data(spec);
  const Trained reference = ExpectSameHoweverCut(spec, &data, 5);
  // An embedding, four blocks of 6, norm and output.
  EXPECT_EQ(reference.digests.size(), 1u + 4 * 6 + 4);
  EXPECT_TRUE(absl::StartsWith(reference.digests.front(), "embedding.weight "))
      << reference.digests.front();
}

TEST(TorchScriptTest, Learns) {
  job::JobSpec spec = Spec();
  spec.training.learning_rate = 3e-3;
  PatternData data(spec);
  const Trained trained =
      Train(spec, &data, 2, 2, OneForwardOneBackwardOrder, 60);
  ASSERT_EQ(trained.steps.size(), 60u);
  EXPECT_NEAR(trained.steps.front().loss, std::log(double{kVocabulary}), 1.0);
  EXPECT_LT(trained.steps.back().loss, 0.6 * trained.steps.front().loss);
}

// Nothing is dropped, so what is drawn does not matter.
TEST(TorchScriptTest, AnEvaluationDropsNothing) {
  job::JobSpec spec = Spec();
  PatternData data(spec);
  const auto loss_with_seed = [&](int64_t seed) {
    spec.seed = seed;
    TorchBench bench(spec, 2, 2, NewStageModel);
    const auto loss = bench->Evaluate(StepIndex(0), &data, 2);
    EXPECT_TRUE(loss.ok()) << loss.status();
    return loss.value_or(-1);
  };
  EXPECT_EQ(loss_with_seed(1), loss_with_seed(2));
  const auto training_loss = [&](int64_t seed) {
    spec.seed = seed;
    return Train(spec, &data, 2, 2, GpipeOrder, 1).steps.at(0).loss;
  };
  EXPECT_NE(training_loss(1), training_loss(2));
}

at::Tensor Weight(at::IntArrayRef sizes, double value) {
  return at::full(sizes, value).set_requires_grad(true);
}

// A module of one parameter and this forward.
Module ModuleOf(const std::string& name, const at::Tensor& weight,
                const std::string& forward) {
  Module module(name);
  module.register_parameter("weight", weight, /*is_buffer=*/false);
  module.define(forward);
  return module;
}

struct Parts {
  Module embedding;
  std::vector<Module> layers;
  Module head;
};

std::string Save(const Parts& parts, const std::string& name) {
  Module layers("Layers");
  for (size_t i = 0; i < parts.layers.size(); ++i) {
    layers.register_module(std::to_string(i), parts.layers[i]);
  }
  Module model("Model");
  model.register_module("embedding", parts.embedding);
  model.register_module("layers", layers);
  model.register_module("head", parts.head);
  const std::string path = ::testing::TempDir() + name;
  model.save(path);
  return path;
}

// Every part passes the tokens on, beside a state of 8 numbers per token, and
// every layer looks at them again.
Parts WithTokens(int layers) {
  const auto table = [](double value) {
    return (Weight({kVocabulary, 8}, value).detach() +
            at::arange(kVocabulary * 8).view({kVocabulary, 8}) % 7 * 0.01)
        .set_requires_grad(true);
  };
  Parts parts;
  parts.embedding = ModuleOf("Embedding", table(0.1), R"(
def forward(self, tokens):
  return self.weight[tokens], tokens
)");
  for (int i = 0; i < layers; ++i) {
    parts.layers.push_back(ModuleOf("Layer", table(-0.05 * i), R"(
def forward(self, x, tokens):
  return x + torch.tanh(x * self.weight[tokens]), tokens
)"));
  }
  parts.head = ModuleOf("Head", table(0.2), R"(
def forward(self, x, tokens, targets):
  logits = torch.matmul(x, self.weight.t())
  return torch.nll_loss(torch.log_softmax(logits.flatten(0, 1), 1), targets.flatten(), None, 2)
)");
  return parts;
}

TEST(TorchScriptTest, SeveralTensorsCrossStages) {
  job::JobSpec spec = Spec();
  spec.model.path = Save(WithTokens(4), "with_tokens.pt");
  spec.model.boundaries = {"float32[16, 8]", "int64[16]"};
  PatternData data(spec);
  const Trained reference = ExpectSameHoweverCut(spec, &data, 5);
  EXPECT_EQ(reference.digests.size(), 6u);
  EXPECT_LT(reference.steps.back().loss, reference.steps.front().loss);
}

TEST(TorchScriptTest, AnOutputOfAnotherTypeEndsTheStep) {
  job::JobSpec spec = Spec();
  spec.model.path = Save(WithTokens(4), "other_type.pt");
  spec.model.boundaries = {"float32[16, 8]", "int32[16]"};
  TorchBench bench(spec, 2, 2, NewStageModel);
  const auto step = bench->RunStep(StepIndex(0), GpipeOrder(2, 4));
  EXPECT_TRUE(absl::StrContains(
      step.status().message(),
      "returned float32[2, 16, 8], int64[2, 16]; the job says float32[2, 16, "
      "8], int32[2, 16]"))
      << step.status();
}

std::string RefusalOf(const std::string& path) {
  job::JobSpec spec = Spec();
  spec.model.path = path;
  spec.model.layers = 1;
  const std::string message = Refusal(spec);
  EXPECT_TRUE(absl::StartsWith(message, path + ": ")) << message;
  return message.substr(std::min(message.size(), path.size() + 2));
}

TEST(TorchScriptTest, RefusesAModelOfAnotherForm) {
  Module plain("Plain");
  plain.define("def forward(self, x):\n  return x\n");
  const std::string path = ::testing::TempDir() + "plain.pt";
  plain.save(path);
  EXPECT_EQ(RefusalOf(path),
            "it has no module `embedding`; embedding, layers and head are what "
            "it must have");

  Parts tied = WithTokens(1);
  tied.head.setattr("weight", tied.embedding.attr("weight"));
  EXPECT_EQ(RefusalOf(Save(tied, "tied.pt")),
            "its parameters embedding.weight and head.weight are one tensor; "
            "tied parameters are not supported");
}

TEST(TorchScriptTest, RefusesAnotherNumberOfLayers) {
  job::JobSpec spec = Spec();
  spec.model.layers = 5;
  EXPECT_EQ(Refusal(spec),
            "tests/plugin/data/convolutions.pt: it has 4 layers; set "
            "model.layers = 4");
}

TEST(TorchScriptTest, RefusesWhatIsNoTorchScript) {
  job::JobSpec spec = Spec();
  spec.model.path = ::testing::TempDir() + "nothing.pt";
  EXPECT_TRUE(absl::StrContains(Refusal(spec), "No such file"))
      << Refusal(spec);
  std::ofstream(spec.model.path) << "a text";
  EXPECT_TRUE(absl::StartsWith(Refusal(spec), spec.model.path + ": "))
      << Refusal(spec);
  EXPECT_TRUE(absl::StrContains(Refusal(spec), "zip")) << Refusal(spec);
}

}  // namespace
}  // namespace stagecoach::worker
