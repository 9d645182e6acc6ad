#ifndef STAGECOACH_STAGE_WORKER_POSITION_H_
#define STAGECOACH_STAGE_WORKER_POSITION_H_

#include <optional>

#include "base/ids.h"
#include "base/mutex.h"
#include "schedule/action.h"

namespace stagecoach::worker {

// Where the engine thread is in its list.
struct Position {
  StepIndex step;
  schedule::Action action;
  // A string literal, "" while computing: "transfer", "acknowledgement", ...
  const char* waiting_for = "";
};

// The engine thread writes, heartbeats and failure reports read. Thread-safe.
class PositionBoard {
 public:
  void Set(const Position& position) {
    MutexLock lock(&mu_);
    position_ = position;
  }
  void SetWaiting(const char* waiting_for) {
    MutexLock lock(&mu_);
    if (position_) position_->waiting_for = waiting_for;
  }
  void Clear() {
    MutexLock lock(&mu_);
    position_.reset();
  }
  // Empty outside a step.
  std::optional<Position> Get() const {
    MutexLock lock(&mu_);
    return position_;
  }

 private:
  mutable Mutex mu_;
  std::optional<Position> position_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_POSITION_H_
