#include "job/hf_config.h"

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "job/model_shape.h"
#include "job/spec_proto.h"
#include "nlohmann/json.hpp"

namespace stagecoach::job {
namespace {

using nlohmann::json;

constexpr char kLlama[] = R"({
  "architectures": ["LlamaForCausalLM"],
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1,
  "dtype": "float32", "eos_token_id": [2, 3], "head_dim": 8,
  "hidden_act": "silu", "hidden_size": 32, "initializer_range": 0.08,
  "intermediate_size": 88, "max_position_embeddings": 64, "mlp_bias": false,
  "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 3,
  "num_key_value_heads": 2, "pad_token_id": null, "pretraining_tp": 1,
  "rms_norm_eps": 3e-05,
  "rope_parameters": {"factor": 8.0, "high_freq_factor": 4.0,
    "low_freq_factor": 1.5, "original_max_position_embeddings": 16,
    "rope_theta": 20000.0, "rope_type": "llama3"},
  "tie_word_embeddings": true, "transformers_version": "5.24.0",
  "use_cache": true, "vocab_size": 160})";

constexpr char kGpt2[] = R"({
  "model_type": "gpt2", "n_layer": 2, "n_embd": 24, "n_head": 3,
  "vocab_size": 50, "attn_pdrop": 0, "embd_pdrop": 0.0, "resid_pdrop": 0})";

// The text with some keys set.
std::string With(const char* text, const std::string& changes) {
  json object = json::parse(text);
  object.update(json::parse(changes));
  return object.dump();
}
ModelSpec Parse(const std::string& text) {
  auto model = ParseHfConfig(text, "F");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : ModelSpec();
}

// All that a model is made of, for comparing.
auto Everything(const ModelSpec& model) {
  const ModelConfig& c = *model.config;
  const RopeConfig& r = c.rope;
  return std::make_pair(
      std::make_tuple(model.architecture, model.layers, model.hidden,
                      model.heads, model.vocabulary, model.tie_embeddings,
                      c.inner, c.positions, c.norm_epsilon, c.initializer_range,
                      c.activation, c.scale_scores, c.scale_scores_by_layer,
                      c.key_value_heads, c.head_width),
      std::make_tuple(c.query_key_value_bias, c.attention_output_bias,
                      c.mlp_bias, c.query_key_norm, c.sliding_window,
                      c.sliding_layers, r.type, r.theta, r.factor,
                      r.original_positions, r.low_frequency_factor,
                      r.high_frequency_factor, r.beta_fast, r.beta_slow,
                      std::make_pair(r.truncate, r.attention_factor)));
}

TEST(HfConfigTest, ReadsALlama) {
  const ModelSpec model = Parse(kLlama);
  EXPECT_EQ(model.architecture, Architecture::kLlama);
  EXPECT_EQ(model.layers, 3);
  EXPECT_EQ(model.hidden, 32);
  EXPECT_EQ(model.heads, 4);
  EXPECT_EQ(model.vocabulary, 160);
  EXPECT_TRUE(model.tie_embeddings);
  EXPECT_EQ(model.config_json, kLlama);
  const ModelConfig& config = *model.config;
  EXPECT_EQ(config.inner, 88);
  EXPECT_EQ(config.positions, 64);
  EXPECT_EQ(config.norm_epsilon, 3e-5);
  EXPECT_EQ(config.initializer_range, 0.08);
  EXPECT_EQ(config.activation, Activation::kSilu);
  EXPECT_EQ(config.key_value_heads, 2);
  EXPECT_EQ(config.head_width, 8);
  EXPECT_EQ(config.rope.type, RopeType::kLlama3);
  EXPECT_EQ(config.rope.theta, 20000);
  EXPECT_EQ(config.rope.factor, 8);
  EXPECT_EQ(config.rope.original_positions, 16);
  EXPECT_EQ(config.rope.low_frequency_factor, 1.5);
  EXPECT_EQ(config.rope.high_frequency_factor, 4);
}

TEST(HfConfigTest, ReadsAGpt2AndItsDefaults) {
  const ModelSpec model = Parse(kGpt2);
  EXPECT_EQ(model.architecture, Architecture::kGpt2);
  EXPECT_TRUE(model.tie_embeddings);
  EXPECT_EQ(model.config->inner, 96);
  EXPECT_EQ(model.config->positions, 1024);
  EXPECT_EQ(model.config->norm_epsilon, 1e-5);
  EXPECT_EQ(model.config->activation, Activation::kGeluTanh);
  EXPECT_TRUE(model.config->scale_scores);
  EXPECT_FALSE(model.config->scale_scores_by_layer);
}

// transformers 4 wrote them so.
TEST(HfConfigTest, BothSpellingsAreOneModel) {
  json old_spelling = json::parse(kLlama);
  json rope = old_spelling["rope_parameters"];
  old_spelling.erase("rope_parameters");
  old_spelling.erase("dtype");
  old_spelling["torch_dtype"] = "float32";
  old_spelling["rope_theta"] = rope["rope_theta"];
  rope.erase("rope_theta");
  old_spelling["rope_scaling"] = rope;
  EXPECT_EQ(Everything(Parse(old_spelling.dump())), Everything(Parse(kLlama)));
  old_spelling["rope_scaling"].erase("rope_type");
  old_spelling["rope_scaling"]["type"] = "llama3";
  EXPECT_EQ(Everything(Parse(old_spelling.dump())), Everything(Parse(kLlama)));
}

TEST(HfConfigTest, WhatIsAbsentHasTheFamilysDefault) {
  const char* const sizes = R"({"model_type": "FAMILY", "hidden_size": 64,
    "num_hidden_layers": 30, "num_attention_heads": 32, "vocab_size": 9,
    "intermediate_size": 7})";
  const auto parse = [&](const std::string& family) {
    return Parse(With(sizes, "{\"model_type\": \"" + family + "\"}"));
  };
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    const ModelConfig config = *parse(family).config;
    EXPECT_FALSE(parse(family).tie_embeddings);
    EXPECT_EQ(config.norm_epsilon, 1e-6);
    EXPECT_EQ(config.rope.type, RopeType::kDefault);
    EXPECT_EQ(config.rope.theta, 10000);
    EXPECT_FALSE(config.attention_output_bias);
    EXPECT_FALSE(config.mlp_bias);
  }
  const ModelConfig llama = *parse("llama").config;
  EXPECT_EQ(llama.positions, 2048);
  EXPECT_EQ(llama.head_width, 2);
  EXPECT_EQ(llama.key_value_heads, 32);
  EXPECT_EQ(llama.sliding_window, 0);
  const ModelConfig mistral = *parse("mistral").config;
  EXPECT_EQ(mistral.key_value_heads, 8);
  EXPECT_EQ(mistral.WindowOfLayer(0), 4096);
  const ModelConfig qwen2 = *parse("qwen2").config;
  EXPECT_TRUE(qwen2.query_key_value_bias);
  EXPECT_FALSE(qwen2.query_key_norm);
  EXPECT_EQ(qwen2.sliding_window, 0);
  EXPECT_EQ(qwen2.positions, 32768);
  const ModelConfig qwen3 = *parse("qwen3").config;
  EXPECT_EQ(qwen3.head_width, 128);
  EXPECT_TRUE(qwen3.query_key_norm);
  EXPECT_FALSE(qwen3.query_key_value_bias);
}

TEST(HfConfigTest, ANullIsNotAlwaysTheDefault) {
  const char* const mistral = R"({"model_type": "mistral", "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 16, "vocab_size": 9,
    "intermediate_size": 7, "sliding_window": null,
    "num_key_value_heads": null})";
  EXPECT_EQ(Parse(mistral).config->sliding_window, 0);
  EXPECT_EQ(Parse(mistral).config->key_value_heads, 16);
}

TEST(HfConfigTest, LayersThatSlide) {
  const std::string qwen = With(R"({"model_type": "qwen2", "hidden_size": 64,
    "num_hidden_layers": 3, "num_attention_heads": 32, "vocab_size": 9,
    "intermediate_size": 7, "use_sliding_window": true, "sliding_window": 5})",
                                R"({"max_window_layers": 1})");
  const ModelConfig from_one = *Parse(qwen).config;
  EXPECT_EQ(from_one.WindowOfLayer(0), 0);
  EXPECT_EQ(from_one.WindowOfLayer(1), 5);
  EXPECT_EQ(from_one.WindowOfLayer(2), 5);
  const ModelConfig listed =
      *Parse(With(qwen.c_str(), R"({"layer_types": ["sliding_attention",
                         "full_attention", "sliding_attention"]})"))
           .config;
  EXPECT_EQ(listed.WindowOfLayer(0), 5);
  EXPECT_EQ(listed.WindowOfLayer(1), 0);
  EXPECT_EQ(listed.WindowOfLayer(2), 5);
}

TEST(HfConfigTest, YarnsAttentionFactor) {
  const auto factor = [](const std::string& keys) {
    return Parse(With(kLlama,
                      "{\"rope_parameters\": {\"rope_type\": \"yarn\", "
                      "\"factor\": 4.0" +
                          keys + "}}"))
        .config->rope.attention_factor;
  };
  EXPECT_DOUBLE_EQ(factor(""), 0.1 * std::log(4.0) + 1);
  EXPECT_DOUBLE_EQ(factor(", \"attention_factor\": 1.25"), 1.25);
  EXPECT_DOUBLE_EQ(factor(", \"mscale\": 2.0, \"mscale_all_dim\": 0.5"),
                   (0.2 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1));
}

TEST(HfConfigTest, GoesToWorkersUnchanged) {
  JobSpec spec;
  spec.model = Parse(kLlama);
  spec.model.checkpoint = "/models/llama";
  v1::JobSpec proto;
  ToProto(spec, &proto);
  const auto back = FromProto(proto);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->model.checkpoint, "/models/llama");
  EXPECT_EQ(back->model.config_json, kLlama);
  EXPECT_EQ(Everything(back->model), Everything(spec.model));
  proto.mutable_model()->set_config_json("{}");
  EXPECT_EQ(FromProto(proto).status().message(),
            "/models/llama/config.json: model_type: \"\" is not supported; it "
            "can be \"gpt2\", \"llama\", \"mistral\", \"qwen2\", \"qwen3\"");
}

// ---- writing ----------------------------------------------------------------

TEST(HfConfigTest, WritesTheModelOfSizesAlone) {
  for (const Architecture architecture :
       {Architecture::kGpt2, Architecture::kLlama}) {
    JobSpec spec;
    spec.model.architecture = architecture;
    spec.model.layers = 3;
    spec.model.hidden = 96;
    spec.model.heads = 4;
    spec.data.sequence_length = 77;
    ModelSpec expected = spec.model;
    expected.config = ConfigOf(spec);
    ModelSpec written = Parse(HfConfigText(spec));
    written.config->sliding_layers.clear();
    if (architecture == Architecture::kGpt2) {
      written.config->key_value_heads = written.config->head_width = 0;
    }
    EXPECT_EQ(Everything(written), Everything(expected));
  }
}

TEST(HfConfigTest, WritesACheckpointsConfigWithTheTypeOfItsWeights) {
  JobSpec spec;
  spec.model = Parse(With(kLlama, R"({"dtype": "bfloat16"})"));
  const json written = json::parse(HfConfigText(spec));
  EXPECT_EQ(written["torch_dtype"], "float32");
  EXPECT_EQ(written.count("dtype"), 0u);
  EXPECT_EQ(written["rope_parameters"]["rope_type"], "llama3");
  EXPECT_EQ(Everything(Parse(written.dump())), Everything(spec.model));
}

// ---- what is refused --------------------------------------------------------

struct Refused {
  const char* base;
  const char* changes;
  const char* message;  // without "F: "
};

const Refused kRefused[] = {
    {kLlama, R"({"model_type": "gemma"})",
     "model_type: \"gemma\" is not supported; it can be \"gpt2\", \"llama\", "
     "\"mistral\", \"qwen2\", \"qwen3\""},
    {kLlama, R"({"model_type": 3})", "model_type: must be a text, not 3"},
    {kLlama, R"({"rope_thta": 1})",
     "rope_thta: is not known here and may change the model's numbers; did you "
     "mean \"rope_theta\"?"},
    {kLlama, R"({"quantization_config": {"bits": 4}})",
     "quantization_config: is not known here and may change the model's "
     "numbers; remove it only if it does not"},
    {kLlama, R"({"a\nb": 1})",
     "a\\nb: is not known here and may change the model's numbers; remove it "
     "only if it does not"},
    {kLlama, R"({"hidden_size": null})", "hidden_size: is missing"},
    {kLlama, R"({"hidden_size": 0})",
     "hidden_size: must be an integer from 1 to 16777216, not 0"},
    {kLlama, R"({"hidden_size": 32.5})",
     "hidden_size: must be an integer from 1 to 16777216, not 32.5"},
    {kLlama, R"({"vocab_size": 18446744073709551615})",
     "vocab_size: must be an integer from 1 to 16777216, not "
     "18446744073709551615"},
    {kLlama, R"({"num_hidden_layers": 70000})",
     "num_hidden_layers: 70000 is more than 65536"},
    {kLlama, R"({"head_dim": null, "num_attention_heads": 6})",
     "num_attention_heads: 6 does not divide hidden_size = 32, and there is no "
     "head_dim"},
    {kLlama, R"({"head_dim": 7})",
     "head_dim: 7 is odd; rotary positions need pairs"},
    {kLlama, R"({"num_key_value_heads": 3})",
     "num_key_value_heads: 3 does not divide num_attention_heads = 4"},
    {kLlama, R"({"hidden_act": "mish"})",
     "hidden_act: \"mish\" is not supported; it can be \"silu\", \"swish\", "
     "\"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", \"relu\""},
    {kLlama, R"({"rms_norm_eps": -1})",
     "rms_norm_eps: must be more than 0, not -1"},
    {kLlama, R"({"rms_norm_eps": "1e-5"})",
     "rms_norm_eps: must be a number, not \"1e-5\""},
    {kLlama, R"({"attention_bias": "no"})",
     "attention_bias: must be true or false, not \"no\""},
    {kLlama, R"({"attention_dropout": 1})",
     "attention_dropout: must be from 0 to below 1"},
    {kLlama, R"({"pretraining_tp": 2})",
     "pretraining_tp: 2 is not supported: it only splits matrices; set it to "
     "1"},
    {kLlama, R"({"dtype": "float8_e4m3fn"})",
     "dtype: \"float8_e4m3fn\" is not supported; it can be \"float32\", "
     "\"bfloat16\", \"float16\""},
    {kLlama, R"({"rope_scaling": {"rope_type": "linear", "factor": 2}})",
     "rope_scaling: says again what rope_parameters says; remove one of them"},
    {kLlama, R"({"rope_parameters": {"rope_type": "longrope", "factor": 2}})",
     "rope_parameters: rope_type: \"longrope\" is not supported; it can be "
     "\"default\", \"linear\", \"dynamic\", \"llama3\", \"yarn\""},
    {kLlama, R"({"rope_parameters": {"rope_type": "linear"}})",
     "rope_parameters: factor: is missing"},
    {kLlama, R"({"rope_parameters": {"rope_type": "default", "factor": 2}})",
     "rope_parameters: factor: is not known here and may change the model's "
     "numbers; remove it only if it does not"},
    {kLlama, R"({"rope_parameters": {"partial_rotary_factor": 0.5}})",
     "rope_parameters: partial_rotary_factor: 0.5 is not supported: all of a "
     "head is rotated; set it to 1"},
    {kLlama, R"({"rope_parameters": [1]})",
     "rope_parameters: must be an object"},
    {kLlama, R"({"layer_types": ["full_attention"]})",
     "layer_types: is not known here and may change the model's numbers; "
     "remove it only if it does not"},
    {kLlama, R"({"model_type": "qwen3", "mlp_bias": null, "pretraining_tp":
                 null, "layer_types": ["full_attention", "mamba"]})",
     "layer_types: must be a list of 3 words, each \"full_attention\" or "
     "\"sliding_attention\""},
    {kLlama, R"({"is_encoder_decoder": true})",
     "is_encoder_decoder: true is not supported: it is another model; set it "
     "to false"},
    {kGpt2, R"({"n_head": 5})", "n_head: 5 does not divide n_embd = 24"},
    {kGpt2, R"({"attn_pdrop": -0.1})", "attn_pdrop: must be from 0 to below 1"},
    {kGpt2, R"({"reorder_and_upcast_attn": true})",
     "reorder_and_upcast_attn: true is not supported: attention is always in "
     "float32; set it to false"},
    {kGpt2, R"({"rope_theta": 5})",
     "rope_theta: is not known here and may change the model's numbers; remove "
     "it only if it does not"},
};

TEST(HfConfigTest, RefusesByName) {
  for (const Refused& input : kRefused) {
    const auto model = ParseHfConfig(With(input.base, input.changes), "F");
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    std::vector<std::string> lines =
        absl::StrSplit(model.status().message(), '\n');
    EXPECT_EQ(lines.front(), std::string("F: ") + input.message)
        << input.changes;
  }
}

TEST(HfConfigTest, SaysEverythingAtOnce) {
  const std::string text =
      With(kLlama, R"({"hidden_act": 1, "rms_norm_eps": -1, "xyz": 1})");
  const auto model = ParseHfConfig(text, "F");
  const std::vector<std::string> lines =
      absl::StrSplit(model.status().message(), '\n');
  EXPECT_EQ(lines.size(), 3u) << model.status();
}

TEST(HfConfigTest, RefusesWhatIsNoJsonObject) {
  const auto message = [](const std::string& text) {
    return std::string(ParseHfConfig(text, "F").status().message());
  };
  EXPECT_EQ(message(""), "F: not JSON");
  EXPECT_EQ(message("{\"a\": "), "F: not JSON");
  EXPECT_EQ(message("[1]"), "F: not a JSON object");
  EXPECT_EQ(message(std::string(100000, '[')), "F: not JSON");
}

// Cut anywhere, with any byte changed: refused or read, never worse.
TEST(HfConfigTest, DamagedTextsAreRefusedOrRead) {
  const std::string text = kLlama;
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(ParseHfConfig(text.substr(0, i), "F").ok()) << i;
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x41);
    const auto model = ParseHfConfig(flipped, "F");
    if (model.ok()) {
      EXPECT_GE(model->layers, 1);
    }
  }
}

TEST(HfConfigTest, AFolderWithoutAConfigIsNamed) {
  const auto model = LoadHfConfig(testing::TempDir() + "nothing");
  EXPECT_EQ(model.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(model.status().message().find("nothing/config.json"),
            std::string::npos)
      << model.status();
}

}  // namespace
}  // namespace stagecoach::job
