#include "base/bytes.h"

#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace stagecoach {
namespace {

struct Unit {
  absl::string_view name;
  int64_t bytes;
};

constexpr std::array<Unit, 5> kUnits = {{{"B", 1},
                                         {"KiB", int64_t{1} << 10},
                                         {"MiB", int64_t{1} << 20},
                                         {"GiB", int64_t{1} << 30},
                                         {"TiB", int64_t{1} << 40}}};
constexpr int64_t kLargest = int64_t{1} << 62;

absl::Status NotASize(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text,
                   "\" is not a size in bytes; write for example \"8GiB\", "
                   "\"512MiB\" or \"4096\" (units KiB, MiB, GiB, TiB)"));
}

// Takes the leading decimal digits off `text`.
absl::string_view TakeDigits(absl::string_view* text) {
  size_t count = 0;
  while (count < text->size() && absl::ascii_isdigit((*text)[count])) ++count;
  const absl::string_view digits = text->substr(0, count);
  text->remove_prefix(count);
  return digits;
}

const Unit* FindUnit(absl::string_view name) {
  if (name.empty()) return &kUnits[0];
  for (const Unit& unit : kUnits) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<int64_t> ParseByteSize(absl::string_view text) {
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  const absl::string_view whole_digits = TakeDigits(&rest);
  if (whole_digits.empty()) return NotASize(text);
  absl::string_view fraction_digits;
  if (absl::ConsumePrefix(&rest, ".")) {
    fraction_digits = TakeDigits(&rest);
    if (fraction_digits.empty()) return NotASize(text);
  }
  const Unit* unit = FindUnit(absl::StripLeadingAsciiWhitespace(rest));
  if (unit == nullptr) return NotASize(text);
  // There is no part of a byte.
  if (unit->bytes == 1 && !fraction_digits.empty()) return NotASize(text);

  int64_t whole = 0;
  if (!absl::SimpleAtoi(whole_digits, &whole) ||
      whole > kLargest / unit->bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is past the largest size, 2^62 bytes"));
  }
  double fraction = 0;
  if (!fraction_digits.empty() &&
      !absl::SimpleAtod(absl::StrCat("0.", fraction_digits), &fraction)) {
    return NotASize(text);
  }
  const auto part = static_cast<int64_t>(
      std::floor(fraction * static_cast<double>(unit->bytes)));
  if (whole == kLargest / unit->bytes && part > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is past the largest size, 2^62 bytes"));
  }
  return whole * unit->bytes + part;
}

std::string FormatByteSize(int64_t bytes) {
  if (bytes > -1024 && bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.999 KiB would print as 1024.00 KiB.
  while (std::fabs(value) >= 1023.995 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.2f %s", value, kUnits[unit].name);
}

}  // namespace stagecoach
