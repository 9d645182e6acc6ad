#ifndef STAGECOACH_SCHEDULE_ACTION_H_
#define STAGECOACH_SCHEDULE_ACTION_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <tuple>

#include "absl/strings/string_view.h"
#include "base/direction.h"
#include "base/ids.h"

namespace stagecoach::schedule {

using stagecoach::Direction;

enum class ActionKind : uint8_t {
  kForward,                 // F
  kBackward,                // B   full backward: input and weight gradients
  kBackwardInput,           // I   input gradient only
  kBackwardWeight,          // W   weight gradient only; after the I of the same
  kSendActivation,          // SEND_F
  kReceiveActivation,       // RECV_F
  kSendGradient,            // SEND_B
  kReceiveGradient,         // RECV_B
  kAwaitActivationRelease,  // AWAIT_RELEASE_F: wait for send budget
  kAwaitGradientRelease,    // AWAIT_RELEASE_B
  kReduceTied,              // REDUCE_TIED: `microbatch` is the tied group
};

// One thing a worker does. `stage` is the stage that the worker runs: 2RECV_F0
// receives stage 2's input (which stage 1 sent as 1SEND_F0), 1RECV_B0 receives
// the gradient of stage 1's output (which stage 2 sent as 2SEND_B0).
struct Action {
  ActionKind kind = ActionKind::kForward;
  StageIndex stage;
  MicrobatchIndex microbatch;

  friend bool operator==(const Action& a, const Action& b) {
    return a.kind == b.kind && a.stage == b.stage &&
           a.microbatch == b.microbatch;
  }
  friend bool operator!=(const Action& a, const Action& b) { return !(a == b); }
  friend bool operator<(const Action& a, const Action& b) {
    return std::tie(a.kind, a.stage, a.microbatch) <
           std::tie(b.kind, b.stage, b.microbatch);
  }
};

constexpr bool IsCompute(ActionKind kind) {
  return kind <= ActionKind::kBackwardWeight;
}
constexpr bool IsSend(ActionKind kind) {
  return kind == ActionKind::kSendActivation ||
         kind == ActionKind::kSendGradient;
}
constexpr bool IsReceive(ActionKind kind) {
  return kind == ActionKind::kReceiveActivation ||
         kind == ActionKind::kReceiveGradient;
}
constexpr bool IsAwaitRelease(ActionKind kind) {
  return kind == ActionKind::kAwaitActivationRelease ||
         kind == ActionKind::kAwaitGradientRelease;
}
// Direction of a send, receive or await action.
Direction DirectionOf(ActionKind kind);

// "F", "SEND_B", "AWAIT_RELEASE_F", ...
absl::string_view ActionKindName(ActionKind kind);
// "2F0", "1SEND_F3", "0REDUCE_TIED0".
std::string ToString(const Action& action);
// Reads what ToString writes; false if it is not that.
bool ParseAction(absl::string_view text, Action* action);

inline std::ostream& operator<<(std::ostream& out, const Action& action) {
  return out << ToString(action);
}

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_ACTION_H_
