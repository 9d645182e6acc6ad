// Fuzz target of a checkpoint's two JSON files, its manifest and its index of
// weights: what is read is written as the same again, and no name leads out of
// the folder.

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "stage_worker/checkpoint/index.h"
#include "stage_worker/checkpoint/manifest.h"

namespace stagecoach::checkpoint {
namespace {

using fuzzing::Require;

void CheckName(const std::string& name) {
  Require(!name.empty() && name != "." && name != ".." &&
              !absl::StrContains(name, '/'),
          "a file outside the folder: " + name);
}

// As one sealed it who wrote it so: chance finds no SHA-256.
std::string Sealed(absl::string_view body) {
  Sha256 sha256;
  sha256.Update(body);
  return absl::StrCat(body, ",\n  \"sha256\": \"", sha256.FinishHex(),
                      "\"\n}\n");
}

void CheckManifest(absl::string_view text) {
  const auto manifest = ManifestFromJson(text);
  if (!manifest.ok()) {
    Require(absl::IsInvalidArgument(manifest.status()) ||
                absl::IsUnimplemented(manifest.status()),
            manifest.status().ToString());
    return;
  }
  for (const ManifestFile& file : manifest->files) CheckName(file.name);
  Require(manifest->bytes() >= 0, "fewer than no bytes");
  const std::string written = ManifestToJson(*manifest);
  const auto again = ManifestFromJson(written);
  Require(again.ok(), again.status().ToString());
  Require(ManifestToJson(*again) == written, "written otherwise: " + written);
}

void CheckIndex(absl::string_view text) {
  const auto index = IndexFromJson(text);
  if (!index.ok()) {
    Require(absl::IsInvalidArgument(index.status()), index.status().ToString());
    return;
  }
  for (const auto& [tensor, file] : index->files) CheckName(file);
  const auto again = IndexFromJson(IndexToJson(*index));
  Require(again.ok() && again->files == index->files, "written otherwise");
}

}  // namespace
}  // namespace stagecoach::checkpoint

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  stagecoach::checkpoint::CheckManifest(text);
  stagecoach::checkpoint::CheckManifest(stagecoach::checkpoint::Sealed(text));
  stagecoach::checkpoint::CheckIndex(text);
  return 0;
}
