#ifndef STAGECOACH_BASE_CLOCK_H_
#define STAGECOACH_BASE_CLOCK_H_

#include "absl/time/time.h"
#include "base/mutex.h"

namespace stagecoach {

// Where logic gets the time from, so that tests can set it. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic in the real clock: not wall time, only differences mean anything.
  virtual absl::Time Now() const = 0;
  // The calendar's time, for people and for what outlives this boot. May jump.
  virtual absl::Time WallNow() const = 0;

  // The process-wide real clock; lives for ever.
  static Clock* Real();
};

// Stands still until told.
class SimulatedClock final : public Clock {
 public:
  // Far from Now(), so that one taken for the other shows.
  static constexpr absl::Duration kWallOffset = absl::Hours(24 * 365 * 50);

  explicit SimulatedClock(absl::Time start = absl::UnixEpoch()) : now_(start) {}
  absl::Time Now() const override;
  absl::Time WallNow() const override { return Now() + kWallOffset; }
  void Advance(absl::Duration duration);

 private:
  mutable Mutex mu_;
  absl::Time now_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_CLOCK_H_
