#include "stage_worker/model/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace stagecoach::worker {
namespace {

using Words = std::array<uint32_t, 4>;

constexpr int64_t kWordsPerBlock = 4;
// Blocks that one thread does at least.
constexpr int64_t kGrain = 4096;

// Ten rounds of Philox 4x32.
Words Philox(Words counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0,
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1,
               static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

// Of 2^32, how many words drop an element.
uint64_t Threshold(double probability) {
  constexpr double kAll = 4294967296.0;
  return static_cast<uint64_t>(probability * kAll);
}

}  // namespace

at::Tensor DropoutMask(at::IntArrayRef sizes, double probability,
                       const DropoutPosition& position, int64_t layer,
                       DropoutSite site) {
  at::Tensor mask = at::empty(sizes, at::kBool);
  bool* const dropped = mask.mutable_data_ptr<bool>();
  const int64_t elements = mask.numel();
  const int64_t blocks = (elements + kWordsPerBlock - 1) / kWordsPerBlock;
  const uint64_t threshold = Threshold(probability);
  const auto seed = static_cast<uint64_t>(position.seed);
  // A counter is never used twice under one seed: a model has below 2^24
  // layers, and a tensor below 2^34 elements.
  const uint32_t place =
      static_cast<uint32_t>(layer) << 8 | static_cast<uint32_t>(site);
  at::parallel_for(0, blocks, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const Words words = Philox({static_cast<uint32_t>(block), place,
                                  static_cast<uint32_t>(position.step),
                                  static_cast<uint32_t>(position.microbatch)},
                                 static_cast<uint32_t>(seed),
                                 static_cast<uint32_t>(seed >> 32));
      const int64_t first = block * kWordsPerBlock;
      const int64_t count = std::min(kWordsPerBlock, elements - first);
      for (int64_t i = 0; i < count; ++i) {
        dropped[first + i] = words[static_cast<size_t>(i)] < threshold;
      }
    }
  });
  return mask;
}

at::Tensor Drop(const at::Tensor& x, double probability,
                const DropoutPosition& position, int64_t layer,
                DropoutSite site) {
  if (probability <= 0) return x;
  const at::Tensor mask =
      DropoutMask(x.sizes(), probability, position, layer, site).to(x.device());
  return x.masked_fill(mask, 0).mul(1 / (1 - probability));
}

}  // namespace stagecoach::worker
