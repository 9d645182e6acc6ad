#include "stage_worker/checkpoint/manifest.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status.h"
#include "job/keys.h"
#include "nlohmann/json.hpp"
#include "stage_worker/checkpoint/strict_json.h"

namespace stagecoach::checkpoint {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kFormat[] = "stagecoach checkpoint";
constexpr int64_t kVersion = 1;
constexpr size_t kSha256Digits = 64;
// What the text of a JSON object ends with.
constexpr absl::string_view kEnd = "\n}";

absl::Status Refused(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

// The last key of a manifest: a hash of all bytes before it, so that no damage
// to the manifest itself goes unseen.
std::string SealOf(absl::string_view body) {
  Sha256 sha256;
  sha256.Update(body);
  return absl::StrCat(",\n  \"sha256\": \"", sha256.FinishHex(), "\"", kEnd,
                      "\n");
}

absl::Status CheckSeal(absl::string_view text) {
  const size_t seal_bytes = SealOf("").size();
  if (text.size() >= seal_bytes) {
    const absl::string_view body = text.substr(0, text.size() - seal_bytes);
    if (text.substr(body.size()) == SealOf(body)) return absl::OkStatus();
  }
  return Refused("its contents do not have the sha256 at its end");
}

absl::StatusOr<std::string> Text(const json& object, const char* key) {
  if (!object.contains(key) || !object[key].is_string()) {
    return Refused(absl::StrCat("it has no text \"", key, "\""));
  }
  return object[key].get<std::string>();
}

absl::StatusOr<int64_t> Count(const json& object, const char* key) {
  if (!object.contains(key) || !object[key].is_number_unsigned() ||
      object[key].get<uint64_t>() > std::numeric_limits<int64_t>::max()) {
    return Refused(absl::StrCat("it has no count \"", key, "\""));
  }
  return object[key].get<int64_t>();
}

bool IsSha256(const std::string& text) {
  return text.size() == kSha256Digits &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c)) &&
                  !absl::ascii_isupper(static_cast<unsigned char>(c));
         });
}

absl::StatusOr<ManifestFile> ParseFile(const json& entry) {
  if (!entry.is_object()) return Refused("a file's entry is no object");
  ManifestFile file;
  SC_ASSIGN_OR_RETURN(file.name, Text(entry, "name"));
  if (!IsPlainFileName(file.name) || file.name == kManifestFile) {
    return Refused(absl::StrCat("\"", file.name, "\" is no plain file name"));
  }
  SC_ASSIGN_OR_RETURN(file.bytes, Count(entry, "bytes"));
  SC_ASSIGN_OR_RETURN(file.sha256, Text(entry, "sha256"));
  if (!IsSha256(file.sha256)) {
    return Refused(absl::StrCat("the sha256 of ", file.name, " is none"));
  }
  return file;
}

absl::Status CheckVersion(const json& document) {
  if (!document.is_object()) return Refused("it is no object");
  SC_ASSIGN_OR_RETURN(const std::string format, Text(document, "format"));
  if (format != kFormat) {
    return Refused(
        absl::StrCat("its format is \"", format, "\", not \"", kFormat, "\""));
  }
  SC_ASSIGN_OR_RETURN(const int64_t version, Count(document, "version"));
  if (version <= kVersion) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("it has version ", version, ", this build reads up to ",
                   kVersion, "; use a newer stagecoach"));
}

absl::Status ParseFiles(const json& document, Manifest* manifest) {
  if (!document.contains("files") || !document["files"].is_array()) {
    return Refused("it has no list \"files\"");
  }
  for (const json& entry : document["files"]) {
    SC_ASSIGN_OR_RETURN(ManifestFile file, ParseFile(entry));
    for (const ManifestFile& other : manifest->files) {
      if (other.name == file.name) {
        return Refused(absl::StrCat("it names ", file.name, " twice"));
      }
    }
    manifest->files.push_back(std::move(file));
  }
  return absl::OkStatus();
}

absl::Status ParseSpec(const json& document, Manifest* manifest) {
  if (!document.contains("spec") || !document["spec"].is_object()) {
    return Refused("it has no object \"spec\"");
  }
  for (const auto& item : document["spec"].items()) {
    if (!item.value().is_string()) {
      return Refused(absl::StrCat("spec: ", item.key(), " is no text"));
    }
    manifest->spec[item.key()] = item.value().get<std::string>();
  }
  return absl::OkStatus();
}

absl::Status ParseLossScale(const json& document, Manifest* manifest) {
  if (!document.contains("loss_scale")) return absl::OkStatus();
  const json& entry = document["loss_scale"];
  if (!entry.is_object() || !entry.contains("value") ||
      !entry["value"].is_number()) {
    return Refused("its \"loss_scale\" has no number \"value\"");
  }
  job::LossScaleState state;
  state.value = entry["value"].get<double>();
  SC_ASSIGN_OR_RETURN(state.good_steps, Count(entry, "good_steps"));
  if (!job::IsValid(state)) {
    return Refused("its \"loss_scale\" is not from 1 to 2^60");
  }
  manifest->loss_scale = state;
  return absl::OkStatus();
}

std::map<std::string, std::string> KeysOf(const job::JobSpec& spec) {
  std::map<std::string, std::string> keys;
  for (const job::Key& key : job::Keys()) {
    keys[std::string(key.name)] = job::ValueText(key, spec);
  }
  return keys;
}

// Keys without whose equality the rest of a run would be another one.
bool MustBeEqual(const std::string& key) {
  static constexpr absl::string_view kKeys[] = {
      "seed",
      "data.kind",
      "data.token_type",
      "data.sequence_length",
      "data.order",
      "data.stride",
      "training.optimizer",
      "data.documents",
      "data.document_end",
      "data.targets",
      "training.freeze",
  };
  if (absl::StartsWith(key, "model."))
    return key != "model.checkpoint" && key != "model.path";
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

int64_t SamplesPerStep(const job::JobSpec& spec) {
  return spec.training.RowsPerStep();
}

}  // namespace

int64_t Manifest::bytes() const {
  int64_t sum = 0;
  for (const ManifestFile& file : files) sum += file.bytes;
  return sum;
}

Manifest NewManifest(const std::string& job_id, const job::JobSpec& spec,
                     int64_t step) {
  Manifest manifest;
  manifest.job_id = job_id;
  manifest.step = step;
  manifest.samples = step * SamplesPerStep(spec);
  manifest.spec = KeysOf(spec);
  return manifest;
}

std::string ManifestToJson(const Manifest& manifest) {
  ordered_json document;
  document["format"] = kFormat;
  document["version"] = kVersion;
  document["job_id"] = manifest.job_id;
  document["step"] = manifest.step;
  document["samples"] = manifest.samples;
  if (manifest.loss_scale.has_value()) {
    ordered_json& scale = document["loss_scale"];
    scale["value"] = manifest.loss_scale->value;
    scale["good_steps"] = manifest.loss_scale->good_steps;
  }
  document["spec"] = manifest.spec;
  document["files"] = ordered_json::array();
  for (const ManifestFile& file : manifest.files) {
    ordered_json entry;
    entry["name"] = file.name;
    entry["bytes"] = file.bytes;
    entry["sha256"] = file.sha256;
    document["files"].push_back(std::move(entry));
  }
  // A job's name may hold bytes that are no UTF-8.
  std::string text =
      document.dump(2, ' ', false, ordered_json::error_handler_t::replace);
  text.resize(text.size() - kEnd.size());
  const std::string seal = SealOf(text);
  return absl::StrCat(text, seal);
}

absl::StatusOr<Manifest> ManifestFromJson(absl::string_view text) {
  SC_RETURN_IF_ERROR(CheckSeal(text));
  SC_ASSIGN_OR_RETURN(const json document, ParseStrictJson(text));
  SC_RETURN_IF_ERROR(CheckVersion(document));
  Manifest manifest;
  SC_ASSIGN_OR_RETURN(manifest.job_id, Text(document, "job_id"));
  SC_ASSIGN_OR_RETURN(manifest.step, Count(document, "step"));
  SC_ASSIGN_OR_RETURN(manifest.samples, Count(document, "samples"));
  SC_RETURN_IF_ERROR(ParseLossScale(document, &manifest));
  SC_RETURN_IF_ERROR(ParseSpec(document, &manifest));
  SC_RETURN_IF_ERROR(ParseFiles(document, &manifest));
  return manifest;
}

absl::Status CheckContinues(const Manifest& manifest,
                            const job::JobSpec& spec) {
  for (const auto& [key, value] : KeysOf(spec)) {
    const auto stored = manifest.spec.find(key);
    // A key that the writing version did not have yet had its default.
    if (!MustBeEqual(key) || stored == manifest.spec.end() ||
        stored->second == value) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "it was made with ", key, " = ", stored->second, ", this job has ",
        value, "; set it back, or write to another checkpoint.directory"));
  }
  if (manifest.samples == manifest.step * SamplesPerStep(spec)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "its ", manifest.step, " steps took ", manifest.samples,
      " samples, this job's would have taken ",
      manifest.step * SamplesPerStep(spec),
      "; set training.microbatches and training.microbatch_size back"));
}

}  // namespace stagecoach::checkpoint
