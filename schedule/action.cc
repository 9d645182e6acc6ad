#include "schedule/action.h"

#include <cstddef>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::schedule {
namespace {

// By ActionKind.
constexpr absl::string_view kNames[] = {
    "F",
    "B",
    "I",
    "W",
    "SEND_F",
    "RECV_F",
    "SEND_B",
    "RECV_B",
    "AWAIT_RELEASE_F",
    "AWAIT_RELEASE_B",
    "REDUCE_TIED",
};

// A number as ToString writes it: digits only, no leading zero.
bool ParseIndex(absl::string_view digits, int32_t* value) {
  if (digits.empty() || digits.size() > 10) return false;
  if (digits.size() > 1 && digits[0] == '0') return false;
  int64_t number = 0;
  for (char c : digits) number = number * 10 + (c - '0');
  if (number > std::numeric_limits<int32_t>::max()) return false;
  *value = static_cast<int32_t>(number);
  return true;
}

bool ParseKind(absl::string_view name, ActionKind* kind) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] != name) continue;
    *kind = static_cast<ActionKind>(i);
    return true;
  }
  return false;
}

}  // namespace

Direction DirectionOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kSendGradient:
    case ActionKind::kReceiveGradient:
    case ActionKind::kAwaitGradientRelease:
      return Direction::kGradient;
    default:
      return Direction::kActivation;
  }
}

absl::string_view ActionKindName(ActionKind kind) {
  const size_t index = static_cast<size_t>(kind);
  return index < std::size(kNames) ? kNames[index] : "?";
}

std::string ToString(const Action& action) {
  return absl::StrCat(action.stage.value(), ActionKindName(action.kind),
                      action.microbatch.value());
}

bool ParseAction(absl::string_view text, Action* action) {
  size_t name = 0;
  while (name < text.size() && absl::ascii_isdigit(text[name])) ++name;
  size_t index = text.size();
  while (index > name && absl::ascii_isdigit(text[index - 1])) --index;
  int32_t stage = 0;
  int32_t microbatch = 0;
  ActionKind kind;
  if (!ParseIndex(text.substr(0, name), &stage) ||
      !ParseKind(text.substr(name, index - name), &kind) ||
      !ParseIndex(text.substr(index), &microbatch)) {
    return false;
  }
  *action = Action{kind, StageIndex(stage), MicrobatchIndex(microbatch)};
  return true;
}

}  // namespace stagecoach::schedule
