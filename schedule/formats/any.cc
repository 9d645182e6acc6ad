#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "schedule/formats/check.h"
#include "schedule/formats/formats.h"
#include "schedule/formats/pytorch_csv.h"

namespace stagecoach::schedule {
namespace {

bool LooksLikeText(absl::string_view contents) {
  for (const char c : contents.substr(0, 64)) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (u < 0x20 && c != '\n' && c != '\r' && c != '\t') return false;
  }
  return true;
}

// A row of cells, the first of which is an action or empty.
bool LooksLikeCsv(absl::string_view contents) {
  if (contents.empty() || !LooksLikeText(contents)) return false;
  return absl::ascii_isdigit(static_cast<unsigned char>(contents[0])) ||
         contents[0] == '(' || contents[0] == ',';
}

absl::StatusOr<Schedule> Parse(absl::string_view contents) {
  if (absl::StartsWith(contents, formats::kFormatName)) {
    return ParseText(contents);
  }
  const size_t start = contents.find_first_not_of(" \t\r\n");
  if (start != absl::string_view::npos && contents[start] == '{') {
    return ParseJson(contents);
  }
  if (LooksLikeCsv(contents)) return ParsePytorchCsv(contents);
  // Protobuf starts with the tag of one of the first fields: no text.
  if (LooksLikeText(contents)) {
    return formats::ErrorAt(
        contents, 0,
        absl::StrCat("not a schedule: expected a line \"", formats::kFormatName,
                     " ", formats::kVersion,
                     " ...\", a JSON object, PyTorch's CSV, or protobuf"));
  }
  absl::StatusOr<Schedule> schedule = ParseProtoBytes(contents);
  if (schedule.ok()) return schedule;
  return formats::ErrorAt(contents, 0, schedule.status().message());
}

}  // namespace

absl::StatusOr<Schedule> ParseAny(absl::string_view contents,
                                  absl::string_view name) {
  absl::StatusOr<Schedule> schedule = Parse(contents);
  if (schedule.ok()) return schedule;
  return absl::Status(schedule.status().code(),
                      absl::StrCat(name, ":", schedule.status().message()));
}

}  // namespace stagecoach::schedule
