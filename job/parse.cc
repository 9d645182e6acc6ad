#include "job/parse.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "base/suggest.h"
#include "job/findings.h"
#include "job/keys.h"
#include "job/toml_value.h"

namespace stagecoach::job {
namespace {

// A spec is written by hand; this is to refuse /dev/zero.
constexpr int64_t kMaxSpecBytes = 1 << 20;

SourcePosition PositionOf(const toml::source_region& region) {
  SourcePosition position;
  position.line = static_cast<int>(region.begin.line);
  position.column = static_cast<int>(region.begin.column);
  return position;
}

// A part of a dotted key as TOML writes it: a key that has a dot in quotes must
// not pass for a path.
std::string PartText(absl::string_view part) {
  const bool bare =
      !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
               c == '-';
      });
  return bare ? std::string(part) : absl::StrCat("\"", part, "\"");
}

// `; did you mean "data.stride"?`, or what there is instead.
std::string KeySuggestion(absl::string_view unknown) {
  // The right key in the wrong table is the commonest slip.
  std::vector<std::string> all;
  for (const Key& key : Keys()) {
    if (LeafOf(key.name) == LeafOf(unknown)) {
      return absl::StrCat("; did you mean \"", key.name, "\"?");
    }
    all.emplace_back(key.name);
  }
  for (const char* table : {"model", "data", "training", "pipeline", "memory",
                            "recovery", "checkpoint", "evaluation"}) {
    all.emplace_back(table);
  }
  std::string near = DidYouMean(unknown, all);
  if (!near.empty()) return near;
  const std::string table(TableOf(unknown));
  if (!IsTable(table)) return "; see docs/job_spec.md";
  return absl::StrCat("; [", table, "] has ",
                      absl::StrJoin(KeysOfTable(table), ", ",
                                    [](std::string* out, const auto& name) {
                                      out->append(std::string(LeafOf(name)));
                                    }));
}

// Reads one file with its overrides into `parsed`.
class Reader {
 public:
  Reader(ParsedSpec* parsed, std::string folder)
      : parsed_(parsed), folder_(std::move(folder)), findings_(*parsed) {}

  absl::Status Read(const std::vector<std::string>& overrides) {
    ReadFileText();
    for (const std::string& override_text : overrides) {
      ReadOverride(override_text);
    }
    return findings_.ToStatus();
  }

 private:
  void ReadFileText() {
    // The library's only exception; nothing is parsed past the first error.
    try {
      ReadTable(toml::parse(parsed_->text, parsed_->file_name), "");
    } catch (const toml::parse_error& error) {
      findings_.AddAt(PositionOf(error.source()), "",
                      std::string(error.description()));
    }
  }

  void ReadTable(const toml::table& table, const std::string& path) {
    for (const auto& [key, node] : table) {
      const std::string part = PartText(std::string(key.str()));
      ReadNode(path.empty() ? part : absl::StrCat(path, ".", part),
               PositionOf(key.source()), node);
    }
  }

  void ReadNode(const std::string& path, SourcePosition position,
                const toml::node& node) {
    if (const Key* key = FindKey(path); key != nullptr) {
      parsed_->positions[path] = position;
      const absl::Status status =
          SetFromToml(*key, node, folder_, &parsed_->spec);
      if (!status.ok()) findings_.AddAt(position, path, status.message());
      return;
    }
    if (!IsTable(path)) {
      findings_.AddAt(position, path,
                      absl::StrCat("unknown key", KeySuggestion(path)));
      return;
    }
    if (const toml::table* table = node.as_table(); table != nullptr) {
      parsed_->positions[path] = position;
      ReadTable(*table, path);
      return;
    }
    findings_.AddAt(position, path,
                    absl::StrCat("is a table, not ", TypeName(node),
                                 "; write [", path, "] and its keys below"));
  }

  // "dotted.key=value"
  void ReadOverride(const std::string& text) {
    const size_t equals = text.find('=');
    const std::string path(
        absl::StripAsciiWhitespace(absl::string_view(text).substr(0, equals)));
    if (equals == std::string::npos) {
      findings_.AddOverride(
          path, "has no value; write for example pipeline.send_budget=1");
      return;
    }
    const Key* key = FindKey(path);
    if (key == nullptr) {
      findings_.AddOverride(path,
                            absl::StrCat("unknown key", KeySuggestion(path)));
      return;
    }
    const toml::table value = OverrideValue(
        *key,
        absl::StripAsciiWhitespace(absl::string_view(text).substr(equals + 1)));
    parsed_->positions[path] = SourcePosition();
    const absl::Status status =
        SetFromToml(*key, *value.get("value"), folder_, &parsed_->spec);
    if (!status.ok()) findings_.AddOverride(path, status.message());
  }

  ParsedSpec* const parsed_;
  const std::string folder_;
  Findings findings_;
};

// The folder that relative paths start from.
std::string FolderOf(absl::string_view file_name) {
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::absolute(std::string(file_name), error);
  return error ? "/" : path.parent_path().string();
}

}  // namespace

absl::StatusOr<ParsedSpec> ParseJobSpec(
    absl::string_view text, absl::string_view file_name,
    const std::vector<std::string>& overrides) {
  ParsedSpec parsed;
  parsed.text = std::string(text);
  parsed.file_name = std::string(file_name);
  SC_RETURN_IF_ERROR(Reader(&parsed, FolderOf(file_name)).Read(overrides));
  return parsed;
}

absl::StatusOr<ParsedSpec> LoadJobSpec(
    const std::string& file_name, const std::vector<std::string>& overrides) {
  const absl::StatusOr<std::string> text = ReadFile(file_name, kMaxSpecBytes);
  if (!text.ok()) {
    return absl::NotFoundError(
        absl::StrCat("job spec: ", text.status().message()));
  }
  return ParseJobSpec(*text, file_name, overrides);
}

}  // namespace stagecoach::job
