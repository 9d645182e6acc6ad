#ifndef STAGECOACH_MEMORY_GAUGE_H_
#define STAGECOACH_MEMORY_GAUGE_H_

#include <cstdint>

namespace stagecoach::memory {

// PyTorch's four figures of one quantity. `allocated` and `freed` are sums over
// the process's life.
struct Gauge {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;
  int64_t freed = 0;

  void Add(int64_t bytes) {
    current += bytes;
    allocated += bytes;
    if (current > peak) peak = current;
  }
  void Subtract(int64_t bytes) {
    current -= bytes;
    freed += bytes;
  }
};

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_GAUGE_H_
