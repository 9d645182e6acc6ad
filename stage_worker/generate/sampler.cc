#include "stage_worker/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace stagecoach::worker {
namespace {

constexpr uint64_t kFractionBits = 53;

// Likelier first, of equals the lower index; what is no number comes last.
struct Likelier {
  absl::Span<const float> logits;

  bool operator()(size_t a, size_t b) const {
    const bool a_is_number = !std::isnan(logits[a]);
    const bool b_is_number = !std::isnan(logits[b]);
    if (a_is_number != b_is_number) return a_is_number;
    if (a_is_number && logits[a] != logits[b]) return logits[a] > logits[b];
    return a < b;
  }
};

}  // namespace

Sampler::Sampler(const Options& options)
    : options_(options), generator_(static_cast<uint64_t>(options.seed)) {}

int64_t Sampler::Choose(absl::Span<const float> logits) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const Likelier likelier{logits};
  if (options_.temperature == 0) {
    return static_cast<int64_t>(
        *std::min_element(order.begin(), order.end(), likelier));
  }
  std::sort(order.begin(), order.end(), likelier);
  if (options_.top_k > 0) {
    order.resize(std::min(order.size(), static_cast<size_t>(options_.top_k)));
  }
  // Softmax, with the largest exponent 0, of which the sum cannot overflow.
  std::vector<double> until(order.size());
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const double exponent = (static_cast<double>(logits[order[i]]) -
                             static_cast<double>(logits[order[0]])) /
                            options_.temperature;
    if (!std::isnan(exponent)) sum += std::exp(exponent);
    until[i] = sum;
  }
  const double fraction =
      std::ldexp(static_cast<double>(generator_.Next() >> (64 - kFractionBits)),
                 -static_cast<int>(kFractionBits));
  const auto found =
      std::upper_bound(until.begin(), until.end(), fraction * sum);
  // Beyond the end only if no logit was a number.
  const size_t rank =
      found == until.end() ? 0 : static_cast<size_t>(found - until.begin());
  return static_cast<int64_t>(order[rank]);
}

}  // namespace stagecoach::worker
