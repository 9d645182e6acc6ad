#ifndef STAGECOACH_SCHEDULE_FORMATS_CHECK_H_
#define STAGECOACH_SCHEDULE_FORMATS_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schedule/schedule.h"

// What the three forms share.
namespace stagecoach::schedule::formats {

inline constexpr int kVersion = 1;
inline constexpr absl::string_view kFormatName = "stagecoach-schedule";

// kInvalidArgument "line:column: message" for a byte offset; both count from 1,
// columns in bytes.
absl::Status ErrorAt(absl::string_view text, size_t offset,
                     absl::string_view message);

// A number of digits only, in [low, high].
bool ParseNumber(absl::string_view digits, int64_t low, int64_t high, int* out);

bool ParseDirection(absl::string_view name, Direction* direction);

// Each returns what is wrong, or "".
std::string KindProblem(absl::string_view kind);
// Indices of `plan`, and that it comes after the plans that are there already.
std::string EdgeProblem(const Schedule& schedule, const EdgePlan& plan);
// What only the whole shows: too many actions, communication in a schedule that
// is not lowered, an edge that is used but not planned. This is also how
// input is found out that was cut between two fields.
std::string WholeProblem(const Schedule& schedule);

}  // namespace stagecoach::schedule::formats

#endif  // STAGECOACH_SCHEDULE_FORMATS_CHECK_H_
