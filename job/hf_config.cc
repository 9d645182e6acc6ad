#include "job/hf_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "job/config_reader.h"
#include "job/model_shape.h"
#include "job/words.h"
#include "nlohmann/json.hpp"

namespace stagecoach::job {
namespace {

using nlohmann::json;

// A config is written by hand or by transformers; this is to refuse a file of
// weights.
constexpr int64_t kMaxConfigBytes = 1 << 20;

constexpr int64_t kMaxLayers = 1 << 16;
constexpr int64_t kMaxAttentionWidth = 1 << 24;

const std::vector<std::pair<std::string, Activation>>& Activations() {
  static const auto* const table =
      new std::vector<std::pair<std::string, Activation>>{
          {"silu", Activation::kSilu},
          {"swish", Activation::kSilu},
          {"gelu", Activation::kGelu},
          {"gelu_new", Activation::kGeluTanh},
          {"gelu_pytorch_tanh", Activation::kGeluTanh},
          {"relu", Activation::kRelu},
      };
  return *table;
}

// What every version of transformers may write and training does not use:
// tokens, generation, classification heads, bookkeeping.
void IgnoreHarmless(ConfigReader* keys) {
  keys->Ignore({
      "_attn_implementation_autoset",
      "_name_or_path",
      "architectures",
      "auto_map",
      "bad_words_ids",
      "begin_suppress_tokens",
      "bos_token_id",
      "chunk_size_feed_forward",
      "decoder_start_token_id",
      "diversity_penalty",
      "do_sample",
      "early_stopping",
      "encoder_no_repeat_ngram_size",
      "eos_token_id",
      "exponential_decay_length_penalty",
      "finetuning_task",
      "forced_bos_token_id",
      "forced_eos_token_id",
      "id2label",
      "is_decoder",
      "label2id",
      "length_penalty",
      "max_length",
      "min_length",
      "no_repeat_ngram_size",
      "num_beam_groups",
      "num_beams",
      "num_return_sequences",
      "output_attentions",
      "output_hidden_states",
      "output_scores",
      "pad_token_id",
      "prefix",
      "problem_type",
      "remove_invalid_values",
      "repetition_penalty",
      "return_dict",
      "return_dict_in_generate",
      "sep_token_id",
      "suppress_tokens",
      "task_specific_params",
      "temperature",
      "tokenizer_class",
      "top_k",
      "top_p",
      "torchscript",
      "transformers_version",
      "typical_p",
      "unk_token_id",
      "use_cache",
  });
  const std::string why = "it is another model";
  keys->MustBe("add_cross_attention", false, why);
  keys->MustBe("is_encoder_decoder", false, why);
  keys->MustBe("pruned_heads", json::object(), why);
}

// The weights are read in the type that they are stored in, and trained in
// training.precision.
void CheckDtype(const std::string& key, ConfigReader* keys) {
  keys->OneOf<bool>(key, "float32",
                    {{"float32", true}, {"bfloat16", true}, {"float16", true}});
}

int64_t ReadLayers(const char* key, ConfigReader* keys) {
  const int64_t layers = keys->RequiredSize(key);
  if (layers <= kMaxLayers) return layers;
  keys->Problem(key, absl::StrCat(layers, " is more than ", kMaxLayers));
  return 1;
}

double ReadDropout(const char* key, double fallback, ConfigReader* keys) {
  const double dropout = keys->Number(key, fallback);
  if (dropout >= 0 && dropout < 1) return dropout;
  keys->Problem(key, "must be from 0 to below 1");
  return 0;
}

void ReadGpt2(ConfigReader* keys, ModelSpec* model) {
  ModelConfig& config = *model->config;
  model->architecture = Architecture::kGpt2;
  model->layers = ReadLayers("n_layer", keys);
  model->hidden = keys->RequiredSize("n_embd");
  model->heads = keys->RequiredSize("n_head");
  model->tie_embeddings = keys->Flag("tie_word_embeddings", true);
  config.inner = keys->Size("n_inner", 4 * model->hidden);
  config.positions = keys->Size("n_positions", 1024);
  config.norm_epsilon = keys->PositiveNumber("layer_norm_epsilon", 1e-5);
  config.activation =
      keys->OneOf("activation_function", "gelu_new", Activations());
  config.scale_scores = keys->Flag("scale_attn_weights", true);
  config.scale_scores_by_layer =
      keys->Flag("scale_attn_by_inverse_layer_idx", false);
  config.attention_dropout = ReadDropout("attn_pdrop", 0.1, keys);
  config.embedding_dropout = ReadDropout("embd_pdrop", 0.1, keys);
  config.residual_dropout = ReadDropout("resid_pdrop", 0.1, keys);
  keys->MustBe("reorder_and_upcast_attn", false,
               "attention is always in float32");
  // n_ctx: the old name of n_positions, which is beside it.
  keys->Ignore({"n_ctx", "gradient_checkpointing", "summary_activation",
                "summary_first_dropout", "summary_proj_to_labels",
                "summary_type", "summary_use_proj"});
  if (keys->Sound() && model->hidden % model->heads != 0) {
    keys->Problem("n_head",
                  absl::StrCat(model->heads,
                               " does not divide n_embd = ", model->hidden));
  }
}

// ---- Llama and its relatives ------------------------------------------------

double YarnScale(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

void ReadYarn(ConfigReader* keys, RopeConfig* rope) {
  rope->beta_fast = keys->PositiveNumber("beta_fast", 32);
  rope->beta_slow = keys->PositiveNumber("beta_slow", 1);
  rope->truncate = keys->Flag("truncate", true);
  const double scale = keys->Number("mscale", 0);
  const double scale_all = keys->Number("mscale_all_dim", 0);
  const double implied =
      scale != 0 && scale_all != 0
          ? YarnScale(rope->factor, scale) / YarnScale(rope->factor, scale_all)
          : YarnScale(rope->factor, 1);
  rope->attention_factor = keys->PositiveNumber("attention_factor", implied);
}

RopeType ReadRopeType(ConfigReader* keys) {
  // transformers before 4.43 wrote "type".
  const std::string old_spelling = keys->Text("type", "default");
  return keys->OneOf<RopeType>("rope_type", old_spelling,
                               {{"default", RopeType::kDefault},
                                {"linear", RopeType::kLinear},
                                {"dynamic", RopeType::kDynamic},
                                {"llama3", RopeType::kLlama3},
                                {"yarn", RopeType::kYarn}});
}

// The keys of rope_parameters or rope_scaling.
void ReadRopeScaling(int64_t positions, ConfigReader* keys, RopeConfig* rope) {
  rope->theta = keys->PositiveNumber("rope_theta", rope->theta);
  rope->type = ReadRopeType(keys);
  keys->MustBe("partial_rotary_factor", 1, "all of a head is rotated");
  if (rope->type != RopeType::kDefault) {
    const bool given = keys->Has("factor");
    rope->factor = keys->PositiveNumber("factor", 1);
    if (!given && rope->type != RopeType::kYarn) {
      keys->Problem("factor", "is missing");
    }
  }
  if (rope->type == RopeType::kLlama3 || rope->type == RopeType::kYarn) {
    rope->original_positions =
        keys->Size("original_max_position_embeddings", positions);
  }
  if (rope->type == RopeType::kLlama3) {
    rope->low_frequency_factor = keys->PositiveNumber("low_freq_factor", 1);
    rope->high_frequency_factor = keys->PositiveNumber("high_freq_factor", 4);
    if (rope->high_frequency_factor <= rope->low_frequency_factor) {
      keys->Problem("high_freq_factor", "must be more than low_freq_factor");
    }
  }
  if (rope->type == RopeType::kYarn) {
    if (!keys->Has("factor")) {
      rope->factor = static_cast<double>(positions) /
                     static_cast<double>(rope->original_positions);
    }
    ReadYarn(keys, rope);
  }
  keys->RefuseTheRest();
}

RopeConfig ReadRope(int64_t positions, const std::string& place,
                    ConfigReader* keys, std::vector<std::string>* problems) {
  RopeConfig rope;
  rope.theta = keys->PositiveNumber("rope_theta", 10000);
  const json* const scaling = keys->Take("rope_scaling");
  const json* const parameters = keys->Take("rope_parameters");
  if (scaling != nullptr && parameters != nullptr) {
    keys->Problem("rope_scaling",
                  "says again what rope_parameters says; remove one of them");
    return rope;
  }
  const char* const name =
      parameters != nullptr ? "rope_parameters" : "rope_scaling";
  const json* const given = parameters != nullptr ? parameters : scaling;
  if (given == nullptr) return rope;
  if (!given->is_object()) {
    keys->Problem(name, "must be an object");
    return rope;
  }
  ConfigReader inner(*given, absl::StrCat(place, ": ", name), problems);
  ReadRopeScaling(positions, &inner, &rope);
  return rope;
}

// One word per layer: full_attention or sliding_attention.
std::vector<bool> ReadLayerTypes(const json& types, int64_t layers,
                                 ConfigReader* keys) {
  std::vector<bool> sliding;
  if (types.is_array()) {
    for (const json& type : types) {
      if (type != "full_attention" && type != "sliding_attention") break;
      sliding.push_back(type == "sliding_attention");
    }
  }
  if (sliding.size() != types.size() ||
      static_cast<int64_t>(sliding.size()) != layers) {
    keys->Problem("layer_types",
                  absl::StrCat("must be a list of ", layers,
                               " words, each \"full_attention\" or "
                               "\"sliding_attention\""));
    sliding.assign(static_cast<size_t>(layers), false);
  }
  return sliding;
}

void ReadMistralWindow(const ModelSpec& model, ConfigReader* keys,
                       ModelConfig* config) {
  // null switches it off; only an absent key has the default.
  const bool is_null = keys->Take("sliding_window") == nullptr &&
                       keys->IsWritten("sliding_window");
  config->sliding_window = is_null ? 0 : keys->Size("sliding_window", 4096);
  config->sliding_layers.assign(static_cast<size_t>(model.layers), true);
}

void ReadQwenWindow(const ModelSpec& model, ConfigReader* keys,
                    ModelConfig* config) {
  const bool used = keys->Flag("use_sliding_window", false);
  const bool is_null = keys->Take("sliding_window") == nullptr &&
                       keys->IsWritten("sliding_window");
  const int64_t window = is_null ? 0 : keys->Size("sliding_window", 4096);
  // Layers from this one on, where there is no list.
  const int64_t first = keys->Size("max_window_layers", 28, /*least=*/0);
  const json* const types = keys->Take("layer_types");
  if (types != nullptr) {
    config->sliding_layers = ReadLayerTypes(*types, model.layers, keys);
  } else {
    for (int64_t i = 0; i < model.layers; ++i) {
      config->sliding_layers.push_back(i >= first);
    }
  }
  config->sliding_window = used ? window : 0;
}

void ReadHeads(ConfigReader* keys, ModelSpec* model, int64_t default_width,
               int64_t default_key_value_heads) {
  ModelConfig& config = *model->config;
  const bool has_width = keys->Has("head_dim") || default_width > 0;
  config.head_width = keys->Size(
      "head_dim", default_width > 0
                      ? default_width
                      : std::max<int64_t>(1, model->hidden / model->heads));
  config.key_value_heads =
      keys->Size("num_key_value_heads", keys->IsWritten("num_key_value_heads")
                                            ? model->heads
                                            : default_key_value_heads);
  if (!keys->Sound()) return;
  if (!has_width && model->hidden % model->heads != 0) {
    keys->Problem("num_attention_heads",
                  absl::StrCat(model->heads, " does not divide hidden_size = ",
                               model->hidden, ", and there is no head_dim"));
  } else if (config.head_width % 2 != 0) {
    keys->Problem("head_dim",
                  absl::StrCat(config.head_width,
                               " is odd; rotary positions need pairs"));
  }
  if (model->heads * config.head_width > kMaxAttentionWidth) {
    keys->Problem("head_dim", absl::StrCat(model->heads, " heads of ",
                                           config.head_width, " are more than ",
                                           kMaxAttentionWidth, " numbers"));
  }
  if (model->heads % config.key_value_heads != 0) {
    keys->Problem(
        "num_key_value_heads",
        absl::StrCat(config.key_value_heads,
                     " does not divide num_attention_heads = ", model->heads));
  }
}

enum class Family { kGpt2, kLlama, kMistral, kQwen2, kQwen3 };

void ReadLlama(Family family, const std::string& place, ConfigReader* keys,
               ModelSpec* model, std::vector<std::string>* problems) {
  ModelConfig& config = *model->config;
  model->architecture = Architecture::kLlama;
  model->layers = ReadLayers("num_hidden_layers", keys);
  model->hidden = keys->RequiredSize("hidden_size");
  model->heads = keys->RequiredSize("num_attention_heads");
  model->tie_embeddings = keys->Flag("tie_word_embeddings", false);
  config.inner = keys->RequiredSize("intermediate_size");
  const bool qwen = family == Family::kQwen2 || family == Family::kQwen3;
  config.positions =
      keys->Size("max_position_embeddings", family == Family::kMistral ? 131072
                                            : qwen                     ? 32768
                                                                       : 2048);
  config.norm_epsilon = keys->PositiveNumber("rms_norm_eps", 1e-6);
  config.activation = keys->OneOf("hidden_act", "silu", Activations());
  ReadHeads(keys, model, family == Family::kQwen3 ? 128 : 0,
            family == Family::kMistral ? 8
            : qwen                     ? 32
                                       : model->heads);
  config.rope = ReadRope(config.positions, place, keys, problems);
  config.attention_dropout = ReadDropout("attention_dropout", 0, keys);
  if (family == Family::kLlama || family == Family::kQwen3) {
    config.query_key_value_bias = keys->Flag("attention_bias", false);
    config.attention_output_bias = config.query_key_value_bias;
  }
  if (family == Family::kLlama) {
    config.mlp_bias = keys->Flag("mlp_bias", false);
    keys->MustBe("pretraining_tp", 1, "it only splits matrices");
  }
  if (family == Family::kQwen2) config.query_key_value_bias = true;
  if (family == Family::kQwen3) config.query_key_norm = true;
  if (family == Family::kMistral) ReadMistralWindow(*model, keys, &config);
  if (qwen) ReadQwenWindow(*model, keys, &config);
}

void ReadModel(const json& object, const std::string& place, ModelSpec* model,
               std::vector<std::string>* problems) {
  ConfigReader keys(object, place, problems);
  const size_t before = problems->size();
  const Family family = keys.OneOf<Family>("model_type", "",
                                           {{"gpt2", Family::kGpt2},
                                            {"llama", Family::kLlama},
                                            {"mistral", Family::kMistral},
                                            {"qwen2", Family::kQwen2},
                                            {"qwen3", Family::kQwen3}});
  // What the others of another family mean, nobody knows.
  if (problems->size() > before) return;
  model->vocabulary = keys.RequiredSize("vocab_size");
  model->config->initializer_range =
      keys.PositiveNumber("initializer_range", 0.02);
  if (family == Family::kGpt2) {
    ReadGpt2(&keys, model);
  } else {
    ReadLlama(family, place, &keys, model, problems);
  }
  for (const char* key : {"dtype", "torch_dtype"}) CheckDtype(key, &keys);
  IgnoreHarmless(&keys);
  keys.RefuseTheRest();
}

// ---- writing ----------------------------------------------------------------

json Gpt2Json(const ModelSpec& model, const ModelConfig& config) {
  return {{"activation_function", "gelu_new"},
          {"architectures", {"GPT2LMHeadModel"}},
          {"attn_pdrop", config.attention_dropout},
          // The default is a token of GPT-2's own vocabulary.
          {"bos_token_id", nullptr},
          {"embd_pdrop", config.embedding_dropout},
          {"eos_token_id", nullptr},
          {"initializer_range", config.initializer_range},
          {"layer_norm_epsilon", config.norm_epsilon},
          {"model_type", "gpt2"},
          {"n_embd", model.hidden},
          {"n_head", model.heads},
          {"n_inner", config.inner},
          {"n_layer", model.layers},
          {"n_positions", config.positions},
          {"resid_pdrop", config.residual_dropout},
          {"tie_word_embeddings", model.tie_embeddings},
          {"vocab_size", model.vocabulary}};
}

json LlamaJson(const ModelSpec& model, const ModelConfig& config) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"attention_bias", false},
          {"attention_dropout", config.attention_dropout},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"head_dim", config.head_width},
          {"hidden_act", "silu"},
          {"hidden_size", model.hidden},
          {"initializer_range", config.initializer_range},
          {"intermediate_size", config.inner},
          {"max_position_embeddings", config.positions},
          {"mlp_bias", false},
          {"model_type", "llama"},
          {"num_attention_heads", model.heads},
          {"num_hidden_layers", model.layers},
          {"num_key_value_heads", config.key_value_heads},
          {"rms_norm_eps", config.norm_epsilon},
          {"rope_theta", config.rope.theta},
          {"tie_word_embeddings", model.tie_embeddings},
          {"vocab_size", model.vocabulary}};
}

}  // namespace

absl::StatusOr<ModelSpec> ParseHfConfig(absl::string_view text,
                                        absl::string_view file) {
  const std::string place(file);
  const json object = json::parse(text.begin(), text.end(), nullptr,
                                  /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        place, ": ", object.is_discarded() ? "not JSON" : "not a JSON object"));
  }
  ModelSpec model;
  model.config_json = std::string(text);
  model.config = ModelConfig();
  std::vector<std::string> problems;
  ReadModel(object, place, &model, &problems);
  if (!problems.empty()) {
    return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
  }
  return model;
}

absl::StatusOr<ModelSpec> LoadHfConfig(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/config.json");
  SC_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConfigBytes));
  return ParseHfConfig(text, path);
}

std::string HfConfigText(const JobSpec& spec) {
  json config;
  if (spec.model.brings_stages()) {
    // For people: transformers cannot load it.
    config = {{"model_type",
               absl::StrCat("stagecoach_", WordOf(spec.model.architecture))},
              {"num_hidden_layers", spec.model.layers},
              {"options", spec.model.options}};
  } else if (!spec.model.config_json.empty()) {
    config = json::parse(spec.model.config_json, nullptr, false);
  } else if (spec.model.architecture == Architecture::kLlama) {
    config = LlamaJson(spec.model, ConfigOf(spec));
  } else {
    config = Gpt2Json(spec.model, ConfigOf(spec));
  }
  // transformers before 4.56 knows torch_dtype, later ones dtype.
  config.erase("dtype");
  config["torch_dtype"] = "float32";
  return config.dump(2) + "\n";
}

}  // namespace stagecoach::job
