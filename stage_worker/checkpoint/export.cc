#include "stage_worker/checkpoint/export.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "stage_worker/checkpoint/durable_file.h"
#include "stage_worker/checkpoint/folders.h"
#include "stage_worker/checkpoint/index.h"
#include "stage_worker/checkpoint/safetensors.h"
#include "stage_worker/checkpoint/safetensors_writer.h"

namespace stagecoach::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr char kConfigFile[] = "config.json";
constexpr int64_t kMostCopiedBytes = int64_t{256} << 20;
// What belongs to a model besides its weights.
constexpr const char* kCompanions[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "generation_config.json",
    "added_tokens.json",
    "chat_template.jinja",
};

// What goes into one file.
using Shard = std::vector<TensorToWrite>;

// Absolute, and without the slash that a shell's completion adds.
fs::path Cleaned(const std::string& folder) {
  std::error_code error;
  const fs::path path = fs::absolute(folder, error).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

absl::Status CheckTarget(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) return absl::OkStatus();
  if (fs::is_directory(folder, error) && fs::is_empty(folder, error)) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(absl::StrCat(
      folder.string(), " is there already; remove it, or name another folder"));
}

// Beside the target, so that one rename makes it appear.
absl::StatusOr<std::string> MakeTemporary(const fs::path& folder) {
  std::error_code error;
  const fs::path parent = folder.parent_path();
  fs::create_directories(parent, error);
  std::string pattern = absl::StrCat(parent.string(), "/.",
                                     folder.filename().string(), "-XXXXXX");
  if (mkdtemp(pattern.data()) != nullptr) {
    // mkdtemp's are for their owner alone.
    fs::permissions(pattern, fs::perms(0755), error);
    return pattern;
  }
  return absl::ErrnoToStatus(
      errno, absl::StrCat("cannot make a folder in ", parent.string()));
}

absl::StatusOr<std::vector<Shard>> CutIntoShards(
    const SafetensorsFolder& weights, int64_t shard_bytes, Exported* exported) {
  std::vector<Shard> shards(1);
  int64_t bytes = 0;
  for (const std::string& name : weights.names()) {
    SC_ASSIGN_OR_RETURN(const StoredTensor tensor, weights.Find(name));
    const int64_t size = static_cast<int64_t>(tensor.descriptor.bytes());
    if (!shards.back().empty() && bytes + size > shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back({name, tensor.descriptor, tensor.data});
    bytes += size;
    ++exported->tensors;
    exported->bytes += size;
  }
  return shards;
}

absl::Status WriteText(const std::string& folder, const std::string& name,
                       const std::string& text, Exported* exported) {
  SC_ASSIGN_OR_RETURN(const auto file,
                      DurableFile::Create(absl::StrCat(folder, "/", name)));
  SC_RETURN_IF_ERROR(file->Write(text));
  exported->files.push_back(name);
  return file->Finish().status();
}

absl::Status WriteWeights(const std::string& path, const std::string& folder,
                          const ExportOptions& options, Exported* exported) {
  SC_ASSIGN_OR_RETURN(const auto weights, SafetensorsFolder::Open(path));
  SC_ASSIGN_OR_RETURN(std::vector<Shard> shards,
                      CutIntoShards(*weights, options.shard_bytes, exported));
  WeightIndex index;
  index.total_bytes = exported->bytes;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        shards.size() == 1 ? std::string("model.safetensors")
                           : absl::StrFormat("model-%05d-of-%05d.safetensors",
                                             i + 1, shards.size());
    for (const TensorToWrite& tensor : shards[i]) {
      index.files[tensor.name] = name;
    }
    SC_RETURN_IF_ERROR(WriteSafetensors(absl::StrCat(folder, "/", name),
                                        std::move(shards[i]),
                                        {{"format", "pt"}})
                           .status());
    exported->files.push_back(name);
  }
  if (shards.size() == 1) return absl::OkStatus();
  return WriteText(folder, kIndexFile, IndexToJson(index), exported);
}

// The value of a key of the manifest's spec, which is TOML text.
std::string PathIn(const Manifest& manifest, const std::string& key) {
  const auto found = manifest.spec.find(key);
  if (found == manifest.spec.end()) return "";
  const auto text = nlohmann::json::parse(found->second, nullptr, false);
  return text.is_string() ? text.get<std::string>() : "";
}

absl::Status CopyCompanions(const std::string& folder, Exported* exported) {
  const std::string origin = PathIn(exported->manifest, "model.checkpoint");
  if (origin.empty()) return absl::OkStatus();
  for (const char* name : kCompanions) {
    const auto text =
        ReadFile(absl::StrCat(origin, "/", name), kMostCopiedBytes);
    if (absl::IsNotFound(text.status())) continue;
    SC_RETURN_IF_ERROR(text.status());
    SC_RETURN_IF_ERROR(WriteText(folder, name, *text, exported));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Exported> ExportCheckpoint(const std::string& path,
                                          const std::string& folder,
                                          const ExportOptions& options) {
  const fs::path target = Cleaned(folder);
  SC_RETURN_IF_ERROR(CheckTarget(target));
  Exported exported;
  SC_ASSIGN_OR_RETURN(exported.manifest, VerifyCheckpoint(path));
  SC_ASSIGN_OR_RETURN(
      const std::string config,
      ReadFile(absl::StrCat(path, "/", kConfigFile), kMostCopiedBytes));
  SC_ASSIGN_OR_RETURN(const std::string temporary, MakeTemporary(target));
  absl::Cleanup remove_temporary = [&temporary] {
    std::error_code error;
    fs::remove_all(temporary, error);
  };
  SC_RETURN_IF_ERROR(WriteText(temporary, kConfigFile, config, &exported));
  SC_RETURN_IF_ERROR(WriteWeights(path, temporary, options, &exported));
  SC_RETURN_IF_ERROR(CopyCompanions(temporary, &exported));
  SC_RETURN_IF_ERROR(SyncFolder(temporary));
  if (rename(temporary.c_str(), target.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", folder));
  }
  std::move(remove_temporary).Cancel();
  SC_RETURN_IF_ERROR(SyncFolder(target.parent_path().string()));
  return exported;
}

}  // namespace stagecoach::checkpoint
