#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_STATUS_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stagecoach::worker {

// The exception being handled as a status: kResourceExhausted for out of
// memory, kInvalidArgument for std::invalid_argument (sizes that do not fit),
// kInternal for all else. `place` comes first in the message. Only inside a
// catch block.
absl::Status StatusOfCurrentException(absl::string_view place);

// Runs `call`, which returns a Status or StatusOr, and turns what it throws
// into a status: the one place where torch's exceptions end.
template <typename Call>
auto CatchTorch(absl::string_view place, Call&& call) -> decltype(call()) {
  try {
    return std::forward<Call>(call)();
  } catch (...) {
    return StatusOfCurrentException(place);
  }
}

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_STATUS_H_
