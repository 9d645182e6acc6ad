#ifndef STAGECOACH_STAGE_WORKER_MEMORY_TIMELINE_H_
#define STAGECOACH_STAGE_WORKER_MEMORY_TIMELINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "memory/category.h"
#include "schedule/action.h"

namespace stagecoach::worker {

// A worker's bytes right after an action.
struct MemoryPoint {
  int64_t nanoseconds = 0;  // the host's steady clock
  int64_t step = 0;
  schedule::Action action;
  std::array<int64_t, memory::kCategories> bytes{};
};

// The last few thousand of them: a step or more. The engine thread adds, any
// thread reads. Thread-safe.
class MemoryTimeline {
 public:
  static constexpr size_t kCapacity = 4096;

  void Add(const MemoryPoint& point) SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    if (points_.size() < kCapacity) {
      points_.push_back(point);
    } else {
      points_[next_] = point;
    }
    next_ = (next_ + 1) % kCapacity;
  }

  // Oldest first.
  std::vector<MemoryPoint> Points() const SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    if (points_.size() < kCapacity) return points_;
    std::vector<MemoryPoint> points(
        points_.begin() + static_cast<std::ptrdiff_t>(next_), points_.end());
    points.insert(points.end(), points_.begin(),
                  points_.begin() + static_cast<std::ptrdiff_t>(next_));
    return points;
  }

 private:
  mutable Mutex mu_;
  std::vector<MemoryPoint> points_ SC_GUARDED_BY(mu_);
  size_t next_ SC_GUARDED_BY(mu_) = 0;  // where the next one goes
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MEMORY_TIMELINE_H_
