// The writing half of folders.h.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/status.h"
#include "job/hf_config.h"
#include "stage_worker/checkpoint/durable_file.h"
#include "stage_worker/checkpoint/folders.h"
#include "stage_worker/checkpoint/index.h"
#include "stage_worker/checkpoint/safetensors.h"

namespace stagecoach::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kPartial = ".partial-";
constexpr char kConfigFile[] = "config.json";

// Best effort: what stays is removed by the next checkpoint.
void Remove(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) {
    LogWarning(
        absl::StrCat("cannot remove ", path.string(), ": ", error.message()));
  }
}

absl::Status WriteFile(const std::string& folder, const std::string& name,
                       const std::string& text, Manifest* manifest) {
  SC_ASSIGN_OR_RETURN(const auto file,
                      DurableFile::Create(absl::StrCat(folder, "/", name)));
  SC_RETURN_IF_ERROR(file->Write(text));
  SC_ASSIGN_OR_RETURN(const FileDigest digest, file->Finish());
  manifest->files.push_back({name, digest.bytes, digest.sha256});
  return absl::OkStatus();
}

// From the files' own headers, so that it cannot name what is not there.
absl::StatusOr<std::string> IndexOf(const std::string& folder,
                                    const Manifest& manifest) {
  std::vector<std::string> names;
  for (const ManifestFile& file : manifest.files) {
    if (absl::StartsWith(file.name, "model-")) names.push_back(file.name);
  }
  SC_ASSIGN_OR_RETURN(const auto weights,
                      SafetensorsFolder::OpenFiles(folder, names));
  WeightIndex index;
  for (const std::string& name : weights->names()) {
    SC_ASSIGN_OR_RETURN(const StoredTensor tensor, weights->Find(name));
    index.files[name] = weights->FileOf(name);
    index.total_bytes += static_cast<int64_t>(tensor.descriptor.bytes());
  }
  return IndexToJson(index);
}

// A worker that was given up may have left files of another cut of the model.
void RemoveStrangers(const std::string& folder, const Manifest& manifest) {
  std::set<std::string> known;
  for (const ManifestFile& file : manifest.files) known.insert(file.name);
  std::error_code error;
  std::vector<fs::path> strangers;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder, error)) {
    if (known.count(entry.path().filename().string()) == 0) {
      strangers.push_back(entry.path());
    }
  }
  for (const fs::path& stranger : strangers) Remove(stranger);
}

absl::Status Complete(const std::string& folder, const job::JobSpec& spec,
                      Manifest* manifest) {
  RemoveStrangers(folder, *manifest);
  SC_ASSIGN_OR_RETURN(const std::string index, IndexOf(folder, *manifest));
  SC_RETURN_IF_ERROR(
      WriteFile(folder, kConfigFile, job::HfConfigText(spec), manifest));
  SC_RETURN_IF_ERROR(WriteFile(folder, kIndexFile, index, manifest));
  std::sort(manifest->files.begin(), manifest->files.end(),
            [](const ManifestFile& a, const ManifestFile& b) {
              return a.name < b.name;
            });
  // The names before the manifest that vouches for them.
  SC_RETURN_IF_ERROR(SyncFolder(folder));
  SC_ASSIGN_OR_RETURN(const auto file, DurableFile::Create(absl::StrCat(
                                           folder, "/", kManifestFile)));
  SC_RETURN_IF_ERROR(file->Write(ManifestToJson(*manifest)));
  SC_RETURN_IF_ERROR(file->Finish().status());
  return SyncFolder(folder);
}

// Gives `from` the name `to`, which afterwards is `to` as it was or `from`, but
// never nothing if the file system can exchange two names.
absl::Status Publish(const std::string& from, const std::string& to) {
  SC_FAIL_AT("worker.checkpoint.rename");
  if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  if (error != ENOTEMPTY && error != EEXIST) {
    return absl::ErrnoToStatus(error, absl::StrCat("cannot rename ", from));
  }
  constexpr unsigned kExchange = 2;  // RENAME_EXCHANGE
  if (syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
              kExchange) == 0) {
    Remove(from);
    return absl::OkStatus();
  }
  const std::string aside = absl::StrCat(to, kPartial, "replaced");
  Remove(aside);
  if (rename(to.c_str(), aside.c_str()) != 0 ||
      rename(from.c_str(), to.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot replace ", to));
  }
  Remove(aside);
  return absl::OkStatus();
}

// Of this step and earlier ones: what is later may be a newer attempt's, and
// this process one that was given up and does not know it.
void RemoveLeftovers(const std::string& directory, int64_t step) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    const size_t end = name.find(kPartial.data(), 0, kPartial.size());
    if (end == std::string::npos) continue;
    const int64_t of_step = StepOfFolder(name.substr(0, end));
    if (of_step >= 0 && of_step <= step) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) Remove(leftover);
}

// Damaged ones count for nothing and go with those that are too old.
void KeepNewest(const std::string& directory, int64_t step, int64_t keep) {
  if (keep <= 0) return;
  auto found = ListCheckpoints(directory);
  if (!found.ok()) return;
  int64_t sound = 0;
  for (const FoundCheckpoint& checkpoint : *found) {
    // What is newer belongs to a run that was longer.
    if (checkpoint.step > step) continue;
    if (sound >= keep) Remove(checkpoint.path);
    if (checkpoint.manifest.ok()) ++sound;
  }
}

}  // namespace

absl::StatusOr<std::string> SealCheckpoint(const std::string& directory,
                                           const std::string& partial,
                                           const job::JobSpec& spec,
                                           Manifest manifest, int64_t keep) {
  const std::string from = absl::StrCat(directory, "/", partial);
  const std::string to =
      absl::StrCat(directory, "/", FolderName(manifest.step));
  SC_RETURN_IF_ERROR(Complete(from, spec, &manifest));
  SC_RETURN_IF_ERROR(Publish(from, to));
  SC_RETURN_IF_ERROR(SyncFolder(directory));
  // It may have been made for this checkpoint.
  std::error_code error;
  SC_RETURN_IF_ERROR(
      SyncFolder(fs::absolute(directory, error).parent_path().string()));
  RemoveLeftovers(directory, manifest.step);
  KeepNewest(directory, manifest.step, keep);
  return to;
}

void DiscardPartial(const std::string& directory, const std::string& partial) {
  Remove(fs::path(directory) / partial);
}

}  // namespace stagecoach::checkpoint
