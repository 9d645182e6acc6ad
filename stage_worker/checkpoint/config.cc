#include "stage_worker/checkpoint/config.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "job/words.h"
#include "nlohmann/json.hpp"

namespace stagecoach::checkpoint {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMostConfigBytes = 1 << 20;

ordered_json Gpt2Config(const job::JobSpec& spec) {
  const job::ModelSpec& model = spec.model;
  ordered_json config;
  config["architectures"] = {"GPT2LMHeadModel"};
  config["model_type"] = "gpt2";
  config["vocab_size"] = model.vocabulary;
  config["n_positions"] = spec.data.sequence_length;
  config["n_embd"] = model.hidden;
  config["n_layer"] = model.layers;
  config["n_head"] = model.heads;
  config["n_inner"] = nullptr;
  config["activation_function"] = "gelu_new";
  config["layer_norm_epsilon"] = 1e-5;
  config["initializer_range"] = 0.02;
  for (const char* dropout : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
    config[dropout] = 0.0;
  }
  config["scale_attn_weights"] = true;
  config["tie_word_embeddings"] = model.tie_embeddings;
  // The default is a token of GPT-2's own vocabulary.
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = nullptr;
  config["torch_dtype"] = "float32";
  return config;
}

}  // namespace

absl::StatusOr<std::string> ConfigJson(const job::JobSpec& spec) {
  if (!spec.model.checkpoint.empty()) {
    return ReadFile(absl::StrCat(spec.model.checkpoint, "/config.json"),
                    kMostConfigBytes);
  }
  if (spec.model.architecture == job::Architecture::kGpt2) {
    return absl::StrCat(Gpt2Config(spec).dump(2), "\n");
  }
  return absl::UnimplementedError(
      absl::StrCat("no config.json can be made for model.architecture = \"",
                   job::WordOf(spec.model.architecture), "\""));
}

}  // namespace stagecoach::checkpoint
