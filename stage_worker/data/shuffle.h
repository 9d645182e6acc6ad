#ifndef STAGECOACH_STAGE_WORKER_DATA_SHUFFLE_H_
#define STAGECOACH_STAGE_WORKER_DATA_SHUFFLE_H_

#include <cstdint>
#include <vector>

namespace stagecoach::worker {

// The SplitMix64 generator (Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014): state += 0x9E3779B97F4A7C15,
// then two xor-shift-multiply rounds. Written out because the order of the
// samples must be the same with every standard library. Thread-compatible.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t state) : state_(state) {}

  uint64_t Next();
  // Uniform in [0, bound): draws again while the value lies in the last,
  // incomplete run of `bound`, then takes the remainder. bound > 0.
  uint64_t Below(uint64_t bound);

 private:
  uint64_t state_;
};

// The order in which pass `pass` visits `count` samples. Fisher-Yates from the
// last element down, `j = Below(i + 1)`, on a generator whose state is
// SplitMix64(SplitMix64(seed).Next() xor pass).Next(), so that passes and
// neighbouring seeds share no stretch of the sequence.
std::vector<uint32_t> ShuffledOrder(uint32_t count, int64_t seed, int64_t pass);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_DATA_SHUFFLE_H_
