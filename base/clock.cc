#include "base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace stagecoach {
namespace {

class RealClock final : public Clock {
 public:
  absl::Time Now() const override {
    return absl::UnixEpoch() +
           absl::FromChrono(
               std::chrono::steady_clock::now().time_since_epoch());
  }
  absl::Time WallNow() const override { return absl::Now(); }
};

}  // namespace

Clock* Clock::Real() {
  static auto* const clock = new RealClock;
  return clock;
}

absl::Time SimulatedClock::Now() const {
  MutexLock lock(&mu_);
  return now_;
}

void SimulatedClock::Advance(absl::Duration duration) {
  MutexLock lock(&mu_);
  now_ += duration;
}

}  // namespace stagecoach
