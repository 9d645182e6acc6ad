#include "job/findings.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "job/keys.h"

namespace stagecoach::job {
namespace {

constexpr size_t kMaxLines = 20;

// "file:line:column: key: message"; "--set key: message" without a line;
// "key: message" for a spec that does not come from a file.
std::string Compose(const ParsedSpec& parsed, SourcePosition position,
                    absl::string_view key, absl::string_view message) {
  if (parsed.file_name.empty()) return absl::StrCat(key, ": ", message);
  if (position.line == 0) return absl::StrCat("--set ", key, ": ", message);
  return absl::StrCat(parsed.file_name, ":", position.line, ":",
                      position.column, ": ", key, key.empty() ? "" : ": ",
                      message);
}

}  // namespace

SourcePosition PlaceOf(const ParsedSpec& parsed, absl::string_view key) {
  for (const absl::string_view name : {key, TableOf(key)}) {
    const auto found = parsed.positions.find(std::string(name));
    if (found != parsed.positions.end()) return found->second;
  }
  SourcePosition first_line;
  first_line.line = 1;
  first_line.column = 1;
  return first_line;
}

absl::Status ParsedSpec::ErrorAt(absl::string_view key,
                                 absl::string_view message) const {
  return absl::InvalidArgumentError(
      Compose(*this, PlaceOf(*this, key), key, message));
}

void Findings::Add(absl::string_view key, absl::string_view message) {
  AddAt(PlaceOf(parsed_, key), key, message);
}

void Findings::AddAt(SourcePosition position, absl::string_view key,
                     absl::string_view message) {
  Line line;
  line.position = position;
  line.text = Compose(parsed_, position, key, message);
  lines_.push_back(line);
}

void Findings::AddOverride(absl::string_view key, absl::string_view message) {
  Line line;
  line.text = absl::StrCat("--set ", key, ": ", message);
  lines_.push_back(line);
}

absl::Status Findings::ToStatus() const {
  if (lines_.empty()) return absl::OkStatus();
  std::vector<Line> sorted = lines_;
  const auto place = [](const Line& line) {
    const int last = std::numeric_limits<int>::max();
    return std::make_tuple(line.position.line == 0 ? last : line.position.line,
                           line.position.column);
  };
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [&](const Line& a, const Line& b) { return place(a) < place(b); });
  std::string message;
  for (size_t i = 0; i < sorted.size() && i < kMaxLines; ++i) {
    absl::StrAppend(&message, i == 0 ? "" : "\n", sorted[i].text);
  }
  if (sorted.size() > kMaxLines) {
    absl::StrAppend(&message, "\nand ", sorted.size() - kMaxLines, " more");
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace stagecoach::job
