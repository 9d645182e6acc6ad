#ifndef STAGECOACH_CLIENT_TIME_ARGUMENT_H_
#define STAGECOACH_CLIENT_TIME_ARGUMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stagecoach::client {

// The value of an option that is a time: "90s", "5m", "1h30m"; a bare number is
// seconds; empty is for ever. kInvalidArgument names the option.
absl::StatusOr<absl::Duration> ParseTimeArgument(const std::string& option,
                                                 const std::string& text);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_TIME_ARGUMENT_H_
