#ifndef STAGECOACH_TRANSPORT_PROGRESS_GATE_H_
#define STAGECOACH_TRANSPORT_PROGRESS_GATE_H_

#include <atomic>

#include "transport/doorbell.h"

namespace stagecoach::transport {

// Lets one thread at a time through Endpoint::Progress; others turn back at
// once. One that turned back may have been rung for news which the thread
// inside has already walked past, and may now go to sleep: so the one inside
// rings the bell when it leaves. It does not go round again itself, because a
// second thread that spins on Progress() would then keep it in there for ever.
// Thread-safe.
class ProgressGate {
 public:
  // Returns work()'s result, or false if another thread (or this one, further
  // up its stack) is inside.
  template <typename Work>
  bool Run(Doorbell* bell, Work&& work) {
    // Set before the attempt: either the attempt succeeds or the one inside
    // sees the flag when it leaves.
    turned_back_.store(true, std::memory_order_seq_cst);
    if (inside_.exchange(true, std::memory_order_seq_cst)) return false;
    turned_back_.exchange(false, std::memory_order_seq_cst);
    const bool any = work();
    inside_.store(false, std::memory_order_seq_cst);
    if (turned_back_.exchange(false, std::memory_order_seq_cst)) bell->Ring();
    return any;
  }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<bool> turned_back_{false};
};

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_PROGRESS_GATE_H_
