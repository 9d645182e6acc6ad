#include "stage_worker/data/shuffle.h"

#include <limits>
#include <numeric>
#include <utility>

namespace stagecoach::worker {

uint64_t SplitMix64::Next() {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

uint64_t SplitMix64::Below(uint64_t bound) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const uint64_t incomplete = (kMax % bound + 1) % bound;  // 2^64 mod bound
  uint64_t value = Next();
  while (value > kMax - incomplete) value = Next();
  return value % bound;
}

std::vector<uint32_t> ShuffledOrder(uint32_t count, int64_t seed,
                                    int64_t pass) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  const uint64_t mixed_seed = SplitMix64(static_cast<uint64_t>(seed)).Next();
  SplitMix64 generator(
      SplitMix64(mixed_seed ^ static_cast<uint64_t>(pass)).Next());
  for (uint32_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[generator.Below(i)]);
  }
  return order;
}

}  // namespace stagecoach::worker
