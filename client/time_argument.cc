#include "client/time_argument.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::client {

absl::StatusOr<absl::Duration> ParseTimeArgument(const std::string& option,
                                                 const std::string& text) {
  if (text.empty()) return absl::InfiniteDuration();
  absl::Duration time;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    time = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &time)) {
    return absl::InvalidArgumentError(absl::StrCat(
        option, " ", text, " is no duration; write for example 30s or 5m"));
  }
  if (time < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " ", text, " is negative"));
  }
  return time;
}

}  // namespace stagecoach::client
