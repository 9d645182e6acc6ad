#ifndef STAGECOACH_TRANSPORT_SPIN_POLICY_H_
#define STAGECOACH_TRANSPORT_SPIN_POLICY_H_

#include <atomic>
#include <chrono>

namespace stagecoach::transport {

// How long a waiter looks again and again before it sleeps. To be woken takes
// longer than a short wait itself, so who has just waited briefly spins a
// little; who waits long, or is idle, never does, and burns nothing.
// Thread-safe; with several waiters it goes by whoever was last.
class SpinPolicy {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr Duration kSpin = std::chrono::microseconds(50);
  // A wait that began with a sleep ends so late even if its news was near.
  static constexpr Duration kBrief = std::chrono::microseconds(150);

  Duration Budget() const {
    return brief_.load(std::memory_order_relaxed) ? kSpin : Duration::zero();
  }
  // The last wait, spinning and sleeping together.
  void Note(Duration waited) {
    brief_.store(waited <= kBrief, std::memory_order_relaxed);
  }

 private:
  std::atomic<bool> brief_{false};
};

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_SPIN_POLICY_H_
