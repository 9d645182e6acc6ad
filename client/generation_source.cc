#include "client/generation_source.h"

#include <filesystem>
#include <map>
#include <optional>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "job/hf_config.h"
#include "nlohmann/json.hpp"
#include "stage_worker/checkpoint/folders.h"

namespace stagecoach::client {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMostConfigBytes = int64_t{16} << 20;
constexpr int64_t kBytes = 256;

bool IsFile(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// A job's keys by name, where the folder is a checkpoint's.
using JobKeys = std::map<std::string, std::string>;

std::string TextOf(const JobKeys& keys, const std::string& key) {
  const auto found = keys.find(key);
  if (found == keys.end()) return "";
  const json text = json::parse(found->second, nullptr, false);
  return text.is_string() ? text.get<std::string>() : "";
}

// The folder of the model, and what is known of the job that made it.
absl::StatusOr<std::string> FolderOf(const std::string& path, JobKeys* keys,
                                     std::vector<std::string>* warnings) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return absl::NotFoundError(absl::StrCat("there is no folder ", path));
  }
  SC_ASSIGN_OR_RETURN(const checkpoint::Choice choice,
                      checkpoint::ChooseCheckpoint(path));
  for (const std::string& warning : choice.warnings) {
    warnings->push_back(absl::StrCat(warning, "; taking the one before"));
  }
  if (choice.checkpoint.has_value()) {
    *keys = choice.checkpoint->manifest.spec;
    return fs::absolute(choice.checkpoint->path).lexically_normal().string();
  }
  const absl::StatusOr<checkpoint::Manifest> manifest =
      checkpoint::ReadCheckpoint(path);
  if (manifest.ok()) {
    *keys = manifest->spec;
  } else if (!absl::IsNotFound(manifest.status())) {
    return manifest.status();
  }
  if (!IsFile(path + "/config.json")) {
    return absl::NotFoundError(absl::StrCat(
        path,
        " is neither a Hugging Face folder nor a checkpoint nor a directory "
        "of checkpoints: it has no config.json"));
  }
  return fs::absolute(path).lexically_normal().string();
}

std::string TokenizerOf(const std::string& folder, const JobKeys& keys) {
  std::vector<std::string> places = {folder + "/tokenizer.json"};
  if (const std::string origin = TextOf(keys, "model.checkpoint");
      !origin.empty()) {
    places.push_back(origin + "/tokenizer.json");
  }
  if (fs::path data = TextOf(keys, "data.path"); !data.empty()) {
    places.push_back(data.replace_extension(".tokenizer.json").string());
  }
  for (const std::string& place : places) {
    if (IsFile(place)) return place;
  }
  return "";
}

// "eos_token_id" of a file: one, or a list of them.
std::optional<std::vector<int64_t>> EndTokensIn(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMostConfigBytes);
  if (!text.ok()) return std::nullopt;
  const json document = json::parse(*text, nullptr, false);
  if (!document.is_object() || !document.contains("eos_token_id")) {
    return std::nullopt;
  }
  const json& value = document["eos_token_id"];
  std::vector<int64_t> tokens;
  for (const json& token : value.is_array() ? value : json::array({value})) {
    if (token.is_number_unsigned()) tokens.push_back(token.get<int64_t>());
  }
  return tokens;
}

std::vector<int64_t> EndTokensOf(const std::string& folder) {
  for (const char* file : {"/generation_config.json", "/config.json"}) {
    if (auto tokens = EndTokensIn(folder + file); tokens.has_value()) {
      return *tokens;
    }
  }
  return {};
}

}  // namespace

absl::StatusOr<GenerationSource> FindGenerationSource(
    const std::string& path, const std::string& tokenizer) {
  GenerationSource source;
  JobKeys keys;
  SC_ASSIGN_OR_RETURN(source.folder, FolderOf(path, &keys, &source.warnings));
  SC_ASSIGN_OR_RETURN(const job::ModelSpec model,
                      job::LoadHfConfig(source.folder));
  if (!tokenizer.empty()) {
    if (!IsFile(tokenizer)) {
      return absl::NotFoundError(
          absl::StrCat("there is no tokenizer ", tokenizer));
    }
    source.tokenizer = fs::absolute(tokenizer).string();
  } else if (TextOf(keys, "data.kind") != "text") {
    source.tokenizer = TokenizerOf(source.folder, keys);
  }
  if (!source.tokenizer.empty()) {
    source.end_tokens = EndTokensOf(source.folder);
    return source;
  }
  const bool bytes =
      TextOf(keys, "data.kind") == "text" || model.vocabulary == kBytes;
  if (bytes && model.vocabulary >= kBytes) return source;
  return absl::InvalidArgumentError(absl::StrCat(
      source.folder, ": no tokenizer.json beside the weights, and the model's ",
      model.vocabulary,
      " tokens are no bytes; name its tokenizer with --tokenizer FILE"));
}

}  // namespace stagecoach::client
