#include "client/data/corpus.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "nlohmann/json.hpp"

namespace stagecoach::client {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// What keeps a line from being a document; empty if nothing.
std::string TextOf(const std::string& line, const std::string& field,
                   std::string* text) {
  const json document = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return "is not JSON";
  if (!document.is_object()) return "is no JSON object";
  const auto found = document.find(field);
  if (found == document.end()) {
    std::string keys;
    for (const auto& [key, value] : document.items()) {
      if (value.is_string()) {
        absl::StrAppend(&keys, keys.empty() ? "" : ", ", "\"", key, "\"");
      }
    }
    return absl::StrCat("has no field \"", field,
                        "\"; its texts are: ", keys.empty() ? "none" : keys,
                        "; choose by --field");
  }
  if (!found->is_string()) {
    return absl::StrCat("field \"", field, "\" is ", found->type_name(),
                        ", no text");
  }
  *text = found->get<std::string>();
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Corpus>> Corpus::Open(const Options& options) {
  std::error_code error;
  if (!fs::exists(options.path, error)) {
    return absl::NotFoundError(absl::StrCat("there is no file ", options.path));
  }
  const uintmax_t bytes = fs::file_size(options.path, error);
  std::ifstream file(options.path, std::ios::binary);
  if (error || !file) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.path, " cannot be read; is it a file?"));
  }
  if (bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(options.path, " is empty"));
  }
  return std::unique_ptr<Corpus>(
      new Corpus(options, std::move(file), static_cast<int64_t>(bytes)));
}

bool Corpus::ReadLine(std::string* line) {
  if (!std::getline(file_, *line)) return false;
  // The end of the file is not a byte.
  bytes_read_ += static_cast<int64_t>(line->size()) + (file_.eof() ? 0 : 1);
  ++line_;
  return true;
}

absl::Status Corpus::CheckRead() const {
  if (!file_.bad()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      options_.path, ": reading failed after ", bytes_read_, " bytes"));
}

absl::StatusOr<bool> Corpus::Next(Piece* piece) {
  return options_.json_lines ? NextLine(piece) : NextText(piece);
}

absl::StatusOr<bool> Corpus::NextLine(Piece* piece) {
  std::string line;
  while (ReadLine(&line)) {
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    piece->place = absl::StrCat(options_.path, ":", line_);
    piece->ends_document = true;
    const std::string problem = TextOf(line, options_.field, &piece->text);
    if (problem.empty()) return true;
    if (!options_.skip_bad) {
      return absl::InvalidArgumentError(
          absl::StrCat(piece->place, ": the line ", problem,
                       "; --skip-bad passes over such lines"));
    }
    ++skipped_;
  }
  SC_RETURN_IF_ERROR(CheckRead());
  return false;
}

int64_t Corpus::tail_begin() const {
  return static_cast<int64_t>(static_cast<double>(bytes_) *
                              (1 - options_.tail));
}

absl::StatusOr<bool> Corpus::NextText(Piece* piece) {
  const int64_t most =
      bytes_read_ < tail_begin()
          ? std::min(options_.piece_bytes, tail_begin() - bytes_read_)
          : options_.piece_bytes;
  piece->text.clear();
  piece->place = absl::StrCat(options_.path, ":", line_ + 1);
  std::string line;
  while (static_cast<int64_t>(piece->text.size()) < most && ReadLine(&line)) {
    piece->text += line;
    if (!file_.eof()) piece->text += '\n';
  }
  SC_RETURN_IF_ERROR(CheckRead());
  piece->ends_document = bytes_read_ >= bytes_;
  return !piece->text.empty();
}

}  // namespace stagecoach::client
