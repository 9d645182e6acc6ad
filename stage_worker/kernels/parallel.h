#ifndef STAGECOACH_STAGE_WORKER_KERNELS_PARALLEL_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_PARALLEL_H_

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#include "stage_worker/kernels/vector.h"

namespace stagecoach::worker::kernels {

// Calls work(begin, end) for parts of [0, count) on torch's threads of this
// job; at once where there is one thread, or too little to share. `cost` is
// about the number of elements of one item. The parts must not change the
// results.
template <typename Work>
void ForParts(int64_t count, int64_t cost, const Work& work) {
  constexpr int64_t kWorthAThread = int64_t{1} << 15;
  const int64_t grain =
      std::max<int64_t>(1, kWorthAThread / std::max<int64_t>(1, cost));
  at::parallel_for(0, count, grain, work);
}

// Sums over the rows of a matrix are made strip by strip of its columns: wide
// enough to read whole cache lines in order, narrow enough for the sums to stay
// in registers.
constexpr int64_t kStripVectors = 8;
template <typename T>
constexpr int64_t kStripColumns = kStripVectors* kLanes<T>;

// Calls work(first column) for each strip.
template <typename T, typename Work>
void ForStrips(int64_t columns, int64_t rows, const Work& work) {
  const int64_t strips = (columns + kStripColumns<T> - 1) / kStripColumns<T>;
  ForParts(strips, rows * kStripColumns<T>, [&](int64_t begin, int64_t end) {
    for (int64_t strip = begin; strip < end; ++strip) {
      work(strip * kStripColumns<T>);
    }
  });
}

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_PARALLEL_H_
