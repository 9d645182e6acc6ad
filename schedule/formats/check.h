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

// Looks at each action as it is read, so that a list that is too long is
// refused before it fills the memory. Not thread-safe.
class ActionCheck {
 public:
  // `schedule` must outlive it; its header and edges are read before the first
  // action is.
  explicit ActionCheck(const Schedule& schedule) : schedule_(schedule) {}

  // "2F9: microbatch 9 is out of range ...": an index, communication without
  // send_budget or on an edge that is not planned (input may have been cut
  // between two fields), or one action too many.
  std::string Problem(const Action& action);

 private:
  const Schedule& schedule_;
  int64_t count_ = 0;
};

}  // namespace stagecoach::schedule::formats

#endif  // STAGECOACH_SCHEDULE_FORMATS_CHECK_H_
