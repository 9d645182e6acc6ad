#include "transport/two_sided/stuck_guard.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach::transport::two_sided {
namespace {

// The clock may be a test's: nobody says when it moves.
constexpr absl::Duration kLook = absl::Milliseconds(20);

}  // namespace

StuckGuard::StuckGuard(Clock* clock, absl::Duration limit, std::string what,
                       std::function<void(const absl::Status&)> on_stuck)
    : clock_(clock),
      limit_(limit),
      what_(std::move(what)),
      on_stuck_(std::move(on_stuck)),
      deadline_(clock->Now() + limit),
      thread_([this] { Watch(); }) {}

StuckGuard::~StuckGuard() {
  {
    MutexLock lock(&mu_);
    returned_ = true;
    returned_changed_.NotifyAll();
  }
  thread_.join();
}

void StuckGuard::Watch() {
  {
    MutexLock lock(&mu_);
    while (!returned_ && clock_->Now() < deadline_) {
      returned_changed_.WaitFor(&mu_, kLook);
    }
    if (returned_) return;
  }
  if (!on_stuck_) return;
  on_stuck_(absl::DeadlineExceededError(absl::StrCat(
      what_, " has not returned within ", absl::FormatDuration(limit_),
      " (abort_within): its buffers cannot be used again, the process must "
      "end")));
}

}  // namespace stagecoach::transport::two_sided
