#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "job/model_shape.h"
#include "stage_worker/model/stage_model.h"

namespace stagecoach::worker {
namespace {

job::JobSpec Spec() {
  job::JobSpec spec;
  spec.model.layers = 3;
  spec.model.hidden = 48;
  spec.model.heads = 4;
  spec.model.vocabulary = 100;
  spec.data.sequence_length = 8;
  return spec;
}

StageAssignment Stage(int64_t begin, int64_t end, const job::JobSpec& spec) {
  StageAssignment stage;
  stage.layers.begin = begin;
  stage.layers.end = end;
  stage.first = begin == 0;
  stage.last = end == spec.model.layers;
  return stage;
}

// A stage with memory of its own for its parameters.
std::unique_ptr<StageModel> NewStage(const job::JobSpec& spec, int64_t begin,
                                     int64_t end) {
  auto model = NewGpt2Stage(spec, Stage(begin, end, spec));
  EXPECT_TRUE(model.ok()) << model.status();
  for (StageParameter* parameter : (*model)->parameters()) {
    parameter->value = at::empty(parameter->shape);
    parameter->initialise(parameter->value);
  }
  return std::move(model).value();
}

TEST(Gpt2Test, ParametersAreWhatTheJobsDescriptionSays) {
  for (const bool tied : {true, false}) {
    job::JobSpec spec = Spec();
    spec.model.tie_embeddings = tied;
    int64_t index = 0;
    for (const auto& [begin, end] :
         std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 3}}) {
      const auto model = NewStage(spec, begin, end);
      const auto parameters = model->parameters();
      const auto expected =
          job::StageParameters(spec, Stage(begin, end, spec).layers);
      ASSERT_EQ(parameters.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(parameters[i]->shape, expected[i].shape);
        EXPECT_EQ(parameters[i]->tied_copy, expected[i].tied_copy);
        EXPECT_EQ(parameters[i]->global_index, index++) << parameters[i]->name;
        // The copy is a leaf of its own here, and the owner's in a checkpoint.
        if (!expected[i].tied_copy) {
          EXPECT_EQ(parameters[i]->name, expected[i].name);
        }
      }
    }
  }
}

TEST(Gpt2Test, NamesAreHuggingFaces) {
  std::set<std::string> names;
  const auto model = NewStage(Spec(), 0, 3);
  for (const StageParameter* parameter : model->parameters()) {
    EXPECT_TRUE(names.insert(parameter->name).second) << parameter->name;
  }
  EXPECT_EQ(names.size(), 2u + 3 * 12 + 3);
  for (const char* name :
       {"transformer.wte.weight", "transformer.wpe.weight",
        "transformer.h.0.ln_1.weight", "transformer.h.1.attn.c_attn.bias",
        "transformer.h.2.attn.c_proj.weight", "transformer.h.2.ln_2.bias",
        "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_proj.bias",
        "transformer.ln_f.weight", "lm_head.weight"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
}

TEST(Gpt2Test, BeginsAsGpt2Does) {
  const auto model = NewStage(Spec(), 0, 3);
  for (const StageParameter* parameter : model->parameters()) {
    const auto ends = [parameter](const std::string& end) {
      return parameter->name.size() >= end.size() &&
             parameter->name.compare(parameter->name.size() - end.size(),
                                     end.size(), end) == 0;
    };
    const double mean = parameter->value.mean().item<double>();
    const double deviation = parameter->value.std().item<double>();
    if (ends(".bias")) {
      EXPECT_EQ(mean, 0) << parameter->name;
    } else if (parameter->name.find("ln_") != std::string::npos) {
      EXPECT_EQ(mean, 1) << parameter->name;
      EXPECT_EQ(deviation, 0);
    } else {
      const double expected =
          ends("c_proj.weight") ? 0.02 / std::sqrt(6) : 0.02;
      EXPECT_NEAR(deviation / expected, 1, 0.1) << parameter->name;
      EXPECT_NEAR(mean / expected, 0, 0.2) << parameter->name;
    }
  }
}

// What a document's tokens make of a row does not depend on other documents.
TEST(Gpt2Test, IsolatedDocumentsDoNotSeeEachOther) {
  const at::NoGradGuard no_grad;
  const job::JobSpec spec = Spec();
  const int64_t length = spec.data.sequence_length;
  const auto model = NewStage(spec, 0, 2);  // no head
  const at::Tensor documents =
      at::arange(length, at::kLong).ge(length / 2).to(at::kLong).unsqueeze(0);
  const auto second_half = [&](int64_t first_token) {
    at::Tensor tokens = at::arange(length, at::kLong).unsqueeze(0);
    tokens.select(1, 0).fill_(first_token);
    model->UseDocuments(documents);
    return model->Forward({tokens}, {})[0].narrow(1, length / 2, length / 2);
  };
  EXPECT_TRUE(at::equal(second_half(3), second_half(17)));
  // The mask is of one Forward alone.
  const auto packed = [&](int64_t first_token) {
    at::Tensor tokens = at::arange(length, at::kLong).unsqueeze(0);
    tokens.select(1, 0).fill_(first_token);
    return model->Forward({tokens}, {})[0].narrow(1, length / 2, length / 2);
  };
  EXPECT_FALSE(at::equal(packed(3), packed(17)));
}

// However the layers are cut, and whatever else a stage holds.
TEST(Gpt2Test, ValuesDependOnSeedAndNameAlone) {
  const auto values = [](const job::JobSpec& spec,
                         const std::vector<int64_t>& cuts) {
    std::map<std::string, at::Tensor> all;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const auto stage = NewStage(spec, cuts[i], cuts[i + 1]);
      for (StageParameter* parameter : stage->parameters()) {
        all[parameter->name] = parameter->value;
      }
    }
    return all;
  };
  job::JobSpec spec = Spec();
  spec.model.tie_embeddings = false;
  auto whole = values(spec, {0, 3});
  auto cut = values(spec, {0, 1, 3});
  ASSERT_EQ(whole.size(), cut.size());
  for (const auto& [name, value] : whole) {
    EXPECT_TRUE(at::equal(value, cut[name])) << name;
  }
  EXPECT_FALSE(at::equal(whole["transformer.h.0.mlp.c_fc.weight"],
                         whole["transformer.h.1.mlp.c_fc.weight"]));
  EXPECT_FALSE(
      at::equal(whole["transformer.wte.weight"], whole["lm_head.weight"]));
  spec.seed = 8;
  auto other = values(spec, {0, 3});
  EXPECT_FALSE(at::equal(whole["transformer.wpe.weight"],
                         other["transformer.wpe.weight"]));
}

TEST(Gpt2Test, ATiedHeadBeginsAsTheEmbedding) {
  const auto model = NewStage(Spec(), 0, 3);
  const auto parameters = model->parameters();
  EXPECT_TRUE(at::equal(parameters.front()->value, parameters.back()->value));
  EXPECT_TRUE(parameters.front()->tied);
  EXPECT_FALSE(parameters.front()->tied_copy);
  EXPECT_TRUE(parameters.back()->tied);
  EXPECT_TRUE(parameters.back()->tied_copy);
}

// Causal: what follows a token does not change what is before it.
TEST(Gpt2Test, ATokenDoesNotSeeTheFuture) {
  const at::NoGradGuard no_grad;
  const auto model = NewStage(Spec(), 0, 2);
  at::Tensor tokens = at::arange(8, at::kLong).view({1, 8});
  const at::Tensor one = model->Forward({tokens.clone()}, {})[0];
  tokens[0][5] = 99;
  const at::Tensor two = model->Forward({tokens}, {})[0];
  EXPECT_EQ(one.sizes().vec(), (std::vector<int64_t>{1, 8, 48}));
  EXPECT_TRUE(at::equal(one.narrow(1, 0, 5), two.narrow(1, 0, 5)));
  EXPECT_FALSE(at::equal(one.narrow(1, 6, 1), two.narrow(1, 6, 1)))
      << "the past is seen";
}

// The whole forward again, from other operations: no addmm, no fused attention,
// no layer_norm, no cross_entropy.
TEST(Gpt2Test, ForwardIsThePaperModel) {
  const at::NoGradGuard no_grad;
  const job::JobSpec spec = Spec();
  const auto model = NewStage(spec, 0, 3);
  std::map<std::string, at::Tensor> p;
  auto generator = at::detail::createCPUGenerator(3);
  for (StageParameter* parameter : model->parameters()) {
    // Large and without symmetry, biases too.
    parameter->value.normal_(0.1, 0.3, generator);
    p[parameter->name] = parameter->value;
  }
  const at::Tensor tokens = at::arange(16, at::kLong).view({2, 8});
  const at::Tensor targets = tokens + 1;

  const auto norm = [&p](const at::Tensor& x, const std::string& name) {
    const at::Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() *
               p[name + ".weight"] +
           p[name + ".bias"];
  };
  const auto linear = [&p](const at::Tensor& x, const std::string& name) {
    return at::matmul(x, p[name + ".weight"]) + p[name + ".bias"];
  };
  at::Tensor x = p["transformer.wte.weight"]
                     .index_select(0, tokens.flatten())
                     .view({2, 8, 48}) +
                 p["transformer.wpe.weight"];
  for (int layer = 0; layer < 3; ++layer) {
    const std::string h = "transformer.h." + std::to_string(layer);
    const at::Tensor qkv = linear(norm(x, h + ".ln_1"), h + ".attn.c_attn")
                               .view({2, 8, 3, 4, 12})
                               .permute({2, 0, 3, 1, 4});
    at::Tensor scores =
        at::matmul(qkv[0], qkv[1].transpose(-1, -2)) / std::sqrt(12.0);
    scores = scores.masked_fill(at::ones({8, 8}, at::kBool).triu(1), -INFINITY);
    const at::Tensor mixed = at::matmul(at::softmax(scores, -1), qkv[2])
                                 .transpose(1, 2)
                                 .reshape({2, 8, 48});
    x = x + linear(mixed, h + ".attn.c_proj");
    const at::Tensor up = linear(norm(x, h + ".ln_2"), h + ".mlp.c_fc");
    const at::Tensor bent =
        0.5 * up *
        (1 + at::tanh(std::sqrt(2 / M_PI) * (up + 0.044715 * up.pow(3))));
    x = x + linear(bent, h + ".mlp.c_proj");
  }
  const at::Tensor logits =
      at::matmul(norm(x, "transformer.ln_f"), p["lm_head.weight"].t());
  const at::Tensor loss = (at::logsumexp(logits, {-1}) -
                           logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1))
                              .sum();

  const double expected = loss.item<double>();
  const double actual = model->Forward({tokens}, targets)[0].item<double>();
  EXPECT_NEAR(actual / expected, 1, 1e-5);
}

TEST(Gpt2Test, RefusesInputsThatDoNotFit) {
  const job::JobSpec spec = Spec();
  const auto first = NewStage(spec, 0, 1);
  const auto last = NewStage(spec, 1, 3);
  const at::Tensor tokens = at::zeros({2, 8}, at::kLong);
  const at::Tensor hidden = at::zeros({2, 8, 48});
  EXPECT_THROW(first->Forward({}, {}), std::invalid_argument);
  EXPECT_THROW(first->Forward({tokens, tokens}, {}), std::invalid_argument);
  EXPECT_THROW(first->Forward({at::zeros({2, 9}, at::kLong)}, {}),
               std::invalid_argument);
  EXPECT_THROW(last->Forward({at::zeros({2, 8, 47})}, tokens),
               std::invalid_argument);
  EXPECT_THROW(last->Forward({at::zeros({2, 48})}, tokens),
               std::invalid_argument);
  EXPECT_THROW(last->Forward({hidden.to(at::kDouble)}, tokens),
               std::invalid_argument);
  EXPECT_THROW(last->Forward({hidden}, at::zeros({3, 8}, at::kLong)),
               std::invalid_argument);
}

TEST(Gpt2Test, RefusesSizesThatCannotWork) {
  const auto code = [](const job::JobSpec& spec, const StageAssignment& stage) {
    return NewGpt2Stage(spec, stage).status().code();
  };
  const job::JobSpec good = Spec();
  EXPECT_EQ(code(good, Stage(0, 3, good)), absl::StatusCode::kOk);
  EXPECT_EQ(code(good, Stage(0, 4, good)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(good, Stage(2, 1, good)), absl::StatusCode::kInvalidArgument);
  job::JobSpec heads = good;
  heads.model.heads = 5;
  EXPECT_EQ(code(heads, Stage(0, 3, heads)),
            absl::StatusCode::kInvalidArgument);
  job::JobSpec none = good;
  none.model.hidden = 0;
  EXPECT_EQ(code(none, Stage(0, 3, none)), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stagecoach::worker
