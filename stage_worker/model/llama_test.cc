#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "job/hf_config.h"
#include "job/model_shape.h"
#include "nlohmann/json.hpp"
#include "stage_worker/model/stage_model.h"

// That the forward is that of transformers is shown in tests/parity.
namespace stagecoach::worker {
namespace {

using nlohmann::json;

constexpr int64_t kLength = 12;

json LlamaConfig() {
  return json::parse(R"({
    "model_type": "llama", "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "vocab_size": 40, "initializer_range": 0.4,
    "rms_norm_eps": 1e-5, "max_position_embeddings": 8})");
}

json Gpt2Config() {
  return json::parse(R"({
    "model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 4,
    "vocab_size": 40, "n_positions": 12, "initializer_range": 0.4,
    "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0})");
}

job::JobSpec SpecOf(const json& config) {
  job::JobSpec spec;
  auto model = job::ParseHfConfig(config.dump(), "config.json");
  EXPECT_TRUE(model.ok()) << model.status();
  if (model.ok()) spec.model = *std::move(model);
  spec.data.sequence_length = kLength;
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

// Vectors are moved off 0 and 1, so that ignoring one shows.
std::unique_ptr<StageModel> NewStage(const job::JobSpec& spec, int64_t begin,
                                     int64_t end) {
  auto model = NewStageModel(spec, Stage(begin, end, spec));
  EXPECT_TRUE(model.ok()) << model.status();
  for (StageParameter* parameter : (*model)->parameters()) {
    parameter->value = at::empty(parameter->shape);
    parameter->initialise(parameter->value);
    if (parameter->shape.size() > 1) continue;
    auto generator = at::detail::createCPUGenerator(
        std::hash<std::string>()(parameter->name) & 0xFFFFFFFFu);
    parameter->value.add_(
        at::empty(parameter->shape).normal_(0, 0.3, generator));
  }
  return std::move(model).value();
}

std::unique_ptr<StageModel> NewWhole(const job::JobSpec& spec) {
  return NewStage(spec, 0, spec.model.layers);
}

double Loss(const json& config) {
  const at::NoGradGuard no_grad;
  const at::Tensor tokens = at::arange(2 * kLength, at::kLong).view({2, -1});
  const at::Tensor targets = tokens.mul(7).add(3).remainder(32);
  return NewWhole(SpecOf(config))->Forward({tokens}, targets)[0].item<double>();
}

TEST(LlamaTest, ParametersAreInGlobalOrderOverTheStages) {
  for (const bool tied : {true, false}) {
    json config = LlamaConfig();
    config["tie_word_embeddings"] = tied;
    const job::JobSpec spec = SpecOf(config);
    int64_t index = 0;
    std::vector<StageParameter> all;
    for (const auto& [begin, end] :
         std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 2}}) {
      const auto stage = NewStage(spec, begin, end);
      for (const StageParameter* parameter : stage->parameters()) {
        EXPECT_EQ(parameter->global_index, index++) << parameter->name;
        all.push_back(*parameter);
      }
    }
    ASSERT_EQ(index, 1 + 2 * 9 + 2);
    EXPECT_EQ(all.front().name, "model.embed_tokens.weight");
    EXPECT_EQ(all.front().tied, tied);
    EXPECT_FALSE(all.front().tied_copy);
    EXPECT_EQ(all.back().name, "lm_head.weight");
    EXPECT_EQ(all.back().tied_copy, tied);
    EXPECT_EQ(all.back().stored_name(),
              tied ? "model.embed_tokens.weight" : "lm_head.weight");
    EXPECT_EQ(at::equal(all.front().value, all.back().value), tied);
  }
}

TEST(LlamaTest, BeginsAsTransformersDoes) {
  const job::JobSpec spec = SpecOf(LlamaConfig());
  auto model = NewStageModel(spec, Stage(0, 2, spec));
  ASSERT_TRUE(model.ok()) << model.status();
  for (StageParameter* parameter : (*model)->parameters()) {
    at::Tensor value = at::empty(parameter->shape);
    parameter->initialise(value);
    if (parameter->shape.size() == 1) {
      EXPECT_TRUE(at::equal(value, at::ones(parameter->shape)))
          << parameter->name;
    } else {
      EXPECT_NEAR(value.std().item<double>() / 0.4, 1, 0.15) << parameter->name;
    }
  }
}

// Rotary positions are differences: a document in a row of others has the loss
// that it has alone. The sliding window stays in force.
TEST(LlamaTest, IsolatedDocumentsAreAsIfAlone) {
  const at::NoGradGuard no_grad;
  for (const bool sliding : {false, true}) {
    json config = LlamaConfig();
    if (sliding) {
      config["model_type"] = "mistral";
      config["sliding_window"] = 3;
    }
    const std::vector<int64_t> lengths = {5, 1, 6};
    const at::Tensor tokens =
        at::arange(kLength, at::kLong).mul(5).remainder(32);
    const at::Tensor targets = tokens.mul(7).add(3).remainder(32);
    at::Tensor documents = at::zeros({1, kLength}, at::kLong);
    double alone = 0;
    int64_t begin = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      documents.narrow(1, begin, lengths[i]).fill_(static_cast<int64_t>(i));
      job::JobSpec spec = SpecOf(config);
      spec.data.sequence_length = lengths[i];
      alone += NewWhole(spec)
                   ->Forward({tokens.narrow(0, begin, lengths[i]).unsqueeze(0)},
                             targets.narrow(0, begin, lengths[i]))[0]
                   .item<double>();
      begin += lengths[i];
    }
    const auto loss = [&](bool isolated) {
      const auto model = NewWhole(SpecOf(config));
      if (isolated) model->UseDocuments(documents);
      return model->Forward({tokens.unsqueeze(0)}, targets)[0].item<double>();
    };
    EXPECT_NEAR(loss(true) / alone, 1, 1e-5);
    EXPECT_GT(std::fabs(loss(false) / alone - 1), 1e-3);
  }
}

// Causal, and within the window where there is one.
TEST(LlamaTest, ATokenSeesItsWindowOfThePast) {
  const at::NoGradGuard no_grad;
  json config = LlamaConfig();
  config["num_hidden_layers"] = 1;
  for (const int window : {0, 4}) {
    if (window > 0) {
      config["model_type"] = "mistral";
      config["sliding_window"] = window;
    }
    job::JobSpec spec = SpecOf(config);
    spec.model.layers = 2;  // so that the stage returns what it computed
    spec.model.config->sliding_layers = {true, true};
    const auto model = NewStage(spec, 0, 1);
    at::Tensor tokens = at::arange(kLength, at::kLong).view({1, kLength});
    const at::Tensor one = model->Forward({tokens.clone()}, {})[0];
    tokens[0][5] = 39;
    const at::Tensor two = model->Forward({tokens}, {})[0];
    for (int64_t i = 0; i < kLength; ++i) {
      const bool sees = i >= 5 && (window == 0 || i < 5 + window);
      EXPECT_EQ(at::equal(one.select(1, i), two.select(1, i)), !sees)
          << "token " << i << ", window " << window;
    }
  }
}

TEST(LlamaTest, RefusesInputsThatDoNotFit) {
  const job::JobSpec spec = SpecOf(LlamaConfig());
  const auto first = NewStage(spec, 0, 1);
  const auto last = NewStage(spec, 1, 2);
  const at::Tensor tokens = at::zeros({2, kLength}, at::kLong);
  EXPECT_THROW(first->Forward({}, {}), std::invalid_argument);
  EXPECT_THROW(first->Forward({at::zeros({2, 9}, at::kLong)}, {}),
               std::invalid_argument);
  EXPECT_THROW(last->Forward({at::zeros({2, kLength, 15})}, tokens),
               std::invalid_argument);
  EXPECT_THROW(last->Forward({at::zeros({2, kLength, 16})},
                             at::zeros({3, kLength}, at::kLong)),
               std::invalid_argument);
}

// ---- each supported key of config.json, changed alone, changes the loss -----

void ExpectEffect(const json& base, const json& change) {
  json changed = base;
  changed.merge_patch(change);
  ASSERT_NE(changed, base) << change;
  const double before = Loss(base);
  const double after = Loss(changed);
  ASSERT_TRUE(std::isfinite(before) && std::isfinite(after)) << change;
  EXPECT_GT(std::fabs(after / before - 1), 1e-6) << change;
}

json With(json base, const std::string& changes) {
  base.merge_patch(json::parse(changes));
  return base;
}

TEST(ConfigEffectTest, KeysOfEveryLlama) {
  for (const char* change :
       {R"({"hidden_size": 20})",
        R"({"intermediate_size": 25})",
        R"({"num_hidden_layers": 3})",
        R"({"num_attention_heads": 2})",
        R"({"num_key_value_heads": 4})",
        R"({"head_dim": 4})",
        R"({"head_dim": null})",
        R"({"vocab_size": 41})",
        R"({"hidden_act": "gelu"})",
        R"({"rms_norm_eps": 1e-2})",
        R"({"initializer_range": 0.3})",
        R"({"tie_word_embeddings": true})",
        R"({"rope_theta": 500})",
        R"({"attention_bias": true})",
        R"({"mlp_bias": true})",
        R"({"model_type": "qwen2"})",
        R"({"model_type": "qwen3"})",
        R"({"model_type": "mistral", "sliding_window": 5})",
        R"({"rope_parameters": {"rope_theta": 500}})",
        R"({"rope_parameters": {"rope_type": "linear", "factor": 2}})",
        R"({"rope_scaling": {"type": "linear", "factor": 2}})"}) {
    ExpectEffect(LlamaConfig(), json::parse(change));
  }
}

TEST(ConfigEffectTest, Activations) {
  for (const char* activation : {"gelu", "gelu_new", "relu"}) {
    ExpectEffect(LlamaConfig(), json({{"hidden_act", activation}}));
  }
  ExpectEffect(With(LlamaConfig(), R"({"hidden_act": "gelu"})"),
               json({{"hidden_act", "gelu_pytorch_tanh"}}));
}

TEST(ConfigEffectTest, KeysOfRotaryPositions) {
  const json linear =
      With(LlamaConfig(),
           R"({"rope_scaling": {"rope_type": "linear", "factor": 2}})");
  ExpectEffect(linear, json::parse(R"({"rope_scaling": {"factor": 3}})"));
  const json dynamic =
      With(linear, R"({"rope_scaling": {"rope_type": "dynamic"}})");
  ExpectEffect(dynamic, json::parse(R"({"rope_scaling": {"factor": 3}})"));
  ExpectEffect(dynamic, json::parse(R"({"max_position_embeddings": 10})"));
  const json llama3 = With(LlamaConfig(), R"({"rope_parameters": {
      "rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
      "high_freq_factor": 4, "original_max_position_embeddings": 16}})");
  for (const char* change : {R"({"factor": 4})", R"({"low_freq_factor": 2})",
                             R"({"high_freq_factor": 8})",
                             R"({"original_max_position_embeddings": 32})",
                             R"({"original_max_position_embeddings": null})"}) {
    ExpectEffect(llama3, json({{"rope_parameters", json::parse(change)}}));
  }
  const json yarn = With(LlamaConfig(), R"({"head_dim": 16, "rope_parameters": {
      "rope_type": "yarn", "factor": 8, "beta_fast": 3, "beta_slow": 0.5,
      "original_max_position_embeddings": 16, "mscale": 2,
      "mscale_all_dim": 0.5}})");
  for (const char* change :
       {R"({"factor": 4})", R"({"factor": null})", R"({"beta_fast": 0.6})",
        R"({"beta_slow": 0.05})", R"({"mscale": 3})",
        R"({"mscale_all_dim": 1})", R"({"attention_factor": 1.5})",
        R"({"truncate": false})",
        R"({"original_max_position_embeddings": 64})"}) {
    ExpectEffect(yarn, json({{"rope_parameters", json::parse(change)}}));
  }
}

TEST(ConfigEffectTest, KeysOfSlidingWindows) {
  const json mistral =
      With(LlamaConfig(), R"({"model_type": "mistral", "sliding_window": 5})");
  ExpectEffect(mistral, json::parse(R"({"sliding_window": 6})"));
  for (const char* family : {"qwen2", "qwen3"}) {
    json qwen = With(LlamaConfig(), R"({"use_sliding_window": true,
        "sliding_window": 5, "max_window_layers": 1})");
    qwen["model_type"] = family;
    for (const char* change :
         {R"({"use_sliding_window": false})", R"({"sliding_window": 6})",
          R"({"max_window_layers": 0})",
          R"({"layer_types": ["sliding_attention", "full_attention"]})"}) {
      ExpectEffect(qwen, json::parse(change));
    }
  }
}

TEST(ConfigEffectTest, KeysOfGpt2) {
  for (const char* change :
       {R"({"n_embd": 20})", R"({"n_layer": 3})", R"({"n_head": 2})",
        R"({"vocab_size": 41})", R"({"n_inner": 25})",
        R"({"activation_function": "relu"})", R"({"initializer_range": 0.3})",
        R"({"layer_norm_epsilon": 1e-2})", R"({"tie_word_embeddings": false})",
        R"({"scale_attn_weights": false})",
        R"({"scale_attn_by_inverse_layer_idx": true})"}) {
    ExpectEffect(Gpt2Config(), json::parse(change));
  }
}

// n_positions decides the shape of wpe and how long sequences may be.
TEST(ConfigEffectTest, PositionsOfGpt2) {
  json longer = Gpt2Config();
  longer["n_positions"] = 20;
  const auto model = NewWhole(SpecOf(longer));
  EXPECT_EQ(model->parameters()[1]->shape, (std::vector<int64_t>{20, 16}));
  EXPECT_GT(Loss(longer), 0);
}

TEST(ConfigEffectTest, HarmlessKeysChangeNothing) {
  const json harmless = json::parse(R"({"bos_token_id": 5, "use_cache": false,
      "architectures": ["X"], "dtype": "bfloat16", "pretraining_tp": 1,
      "attention_dropout": 0.0, "transformers_version": "4.46.0"})");
  json changed = LlamaConfig();
  changed.merge_patch(harmless);
  EXPECT_EQ(Loss(changed), Loss(LlamaConfig()));
}

}  // namespace
}  // namespace stagecoach::worker
