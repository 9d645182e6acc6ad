#include "client/output/text.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace stagecoach::client {

std::string FormatSeconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 9.995) return absl::StrFormat("%.2f s", seconds);
  if (seconds < 59.95) return absl::StrFormat("%.1f s", seconds);
  // Far past every job's length; keeps the conversion defined.
  if (seconds > 1e15) return "-";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) {
    return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  }
  return absl::StrFormat("%d h %02d min", whole / 3600, whole / 60 % 60);
}

std::string FormatShort(double number) {
  if (!std::isfinite(number)) return "-";
  const double size = std::fabs(number);
  if (size < 999.5) return absl::StrFormat("%.0f", number);
  if (size < 999.95e3) return absl::StrFormat("%.1fk", number / 1e3);
  if (size < 999.5e6) return absl::StrFormat("%.2fM", number / 1e6);
  return absl::StrFormat("%.2fG", number / 1e9);
}

std::string FormatCount(int64_t number) {
  std::string digits = absl::StrCat(number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

std::string FormatLayers(int64_t begin, int64_t end) {
  if (end <= begin) return "-";
  if (end == begin + 1) return absl::StrCat(begin);
  return absl::StrCat(begin, "-", end - 1);
}

std::string Plural(int64_t count, const std::string& noun) {
  return absl::StrCat(FormatCount(count), " ", noun, count == 1 ? "" : "s");
}

}  // namespace stagecoach::client
