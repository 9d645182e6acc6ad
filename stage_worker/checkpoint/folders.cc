#include "stage_worker/checkpoint/folders.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/status.h"
#include "stage_worker/checkpoint/durable_file.h"

namespace stagecoach::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kPrefix = "step-";
constexpr int64_t kMostManifestBytes = int64_t{64} << 20;

absl::Status Lost(const std::string& path, absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat("checkpoint ", path, " is damaged: ", why));
}

absl::StatusOr<Manifest> ReadManifest(const std::string& path) {
  const std::string file = absl::StrCat(path, "/", kManifestFile);
  auto text = ReadFile(file, kMostManifestBytes);
  if (absl::IsNotFound(text.status())) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      return absl::NotFoundError(absl::StrCat("there is no folder ", path));
    }
    return absl::NotFoundError(
        absl::StrCat(path, " is no checkpoint: it has no ", kManifestFile));
  }
  if (!text.ok()) return text.status();
  auto manifest = ManifestFromJson(*text);
  if (manifest.ok()) return manifest;
  if (absl::IsUnimplemented(manifest.status())) {
    return Annotate(manifest.status(), file);
  }
  return Lost(path,
              absl::StrCat(kManifestFile, ": ", manifest.status().message()));
}

absl::Status CheckSize(const std::string& path, const ManifestFile& file) {
  std::error_code error;
  const auto bytes = fs::file_size(absl::StrCat(path, "/", file.name), error);
  if (error) return Lost(path, absl::StrCat(file.name, " is missing"));
  if (static_cast<int64_t>(bytes) == file.bytes) return absl::OkStatus();
  return Lost(path, absl::StrCat(file.name, " has ", bytes, " bytes, not ",
                                 file.bytes));
}

absl::Status CheckContents(const std::string& path, const ManifestFile& file) {
  const auto digest = DigestFile(absl::StrCat(path, "/", file.name));
  if (!digest.ok()) return Lost(path, digest.status().message());
  if (digest->sha256 == file.sha256) return absl::OkStatus();
  return Lost(path, absl::StrCat(file.name, " has sha256 ", digest->sha256,
                                 ", not ", file.sha256));
}

}  // namespace

std::string FolderName(int64_t step) {
  return absl::StrFormat("%s%08d", kPrefix, step);
}

int64_t StepOfFolder(const std::string& name) {
  int64_t step = 0;
  if (!absl::StartsWith(name, kPrefix) ||
      !absl::SimpleAtoi(name.substr(kPrefix.size()), &step) || step < 0 ||
      FolderName(step) != name) {
    return -1;
  }
  return step;
}

std::string PartialFolderName(int64_t step, const std::string& job_id,
                              int64_t epoch) {
  return absl::StrCat(FolderName(step), ".partial-", job_id, "-", epoch);
}

absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(
    const std::string& directory) {
  std::vector<FoundCheckpoint> found;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    FoundCheckpoint checkpoint;
    checkpoint.step = StepOfFolder(entry->path().filename().string());
    if (checkpoint.step < 0) continue;
    checkpoint.path = entry->path().string();
    found.push_back(std::move(checkpoint));
  }
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat("cannot read ", directory));
  }
  std::sort(found.begin(), found.end(),
            [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
              return a.step > b.step;
            });
  for (FoundCheckpoint& checkpoint : found) {
    checkpoint.manifest = ReadCheckpoint(checkpoint.path);
  }
  return found;
}

absl::StatusOr<Manifest> ReadCheckpoint(const std::string& path) {
  SC_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(path));
  for (const ManifestFile& file : manifest.files) {
    SC_RETURN_IF_ERROR(CheckSize(path, file));
  }
  return manifest;
}

absl::StatusOr<Manifest> VerifyCheckpoint(const std::string& path) {
  SC_ASSIGN_OR_RETURN(Manifest manifest, ReadCheckpoint(path));
  for (const ManifestFile& file : manifest.files) {
    SC_RETURN_IF_ERROR(CheckContents(path, file));
  }
  return manifest;
}

absl::StatusOr<Choice> ChooseCheckpoint(const std::string& directory,
                                        int64_t newest_step) {
  SC_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found,
                      ListCheckpoints(directory));
  Choice choice;
  for (const FoundCheckpoint& checkpoint : found) {
    if (checkpoint.step > newest_step) continue;
    auto manifest = VerifyCheckpoint(checkpoint.path);
    if (manifest.ok()) {
      choice.checkpoint = {checkpoint.path, *std::move(manifest)};
      return choice;
    }
    // That is not damage, and going back from it would be a surprise.
    if (absl::IsUnimplemented(manifest.status())) return manifest.status();
    choice.warnings.emplace_back(manifest.status().message());
  }
  if (choice.warnings.empty()) return choice;
  return absl::DataLossError(
      absl::StrCat("no checkpoint of ", directory,
                   " can be used; the newest: ", choice.warnings.front()));
}

}  // namespace stagecoach::checkpoint
