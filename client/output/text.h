#ifndef STAGECOACH_CLIENT_OUTPUT_TEXT_H_
#define STAGECOACH_CLIENT_OUTPUT_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace stagecoach::client {

// "0.25 s", "12.3 s", "2 min 05 s", "1 h 03 min".
std::string FormatSeconds(double seconds);

// "812", "41.2k", "1.35M": for rates and counts that need no more digits.
std::string FormatShort(double number);

// "1,234,567".
std::string FormatCount(int64_t number);

// The layers [begin, end) as people count them: "0-2", "3", "-" for none.
std::string FormatLayers(int64_t begin, int64_t end);

// "1 step", "2 steps".
std::string Plural(int64_t count, const std::string& noun);

// "0, 4": a list of integers.
template <typename Numbers>
std::string JoinNumbers(const Numbers& numbers) {
  std::string text;
  for (const auto number : numbers) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", number);
  }
  return text;
}

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_TEXT_H_
