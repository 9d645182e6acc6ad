#include "base/suggest.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

// Longer words are not compared: the time is quadratic and nobody mistypes one.
constexpr size_t kMaxLength = 256;

// Insertions, deletions, replacements and swaps of neighbours that turn `a`
// into `b` (optimal string alignment). Case does not count.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1,
                                        std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  const auto same = [&](size_t i, size_t j) {
    return absl::ascii_tolower(a[i]) == absl::ascii_tolower(b[j]);
  };
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      cost[i][j] =
          std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                    cost[i - 1][j - 1] + (same(i - 1, j - 1) ? 0 : 1)});
      if (i > 1 && j > 1 && same(i - 1, j - 2) && same(i - 2, j - 1)) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

// How far a word may be off and still be taken for a slip.
size_t Tolerance(absl::string_view written) {
  return std::max<size_t>(1, (written.size() + 1) / 3);
}

}  // namespace

std::string DidYouMean(absl::string_view written,
                       const std::vector<std::string>& candidates) {
  if (written.empty() || written.size() > kMaxLength) return "";
  const std::string* best = nullptr;
  size_t best_distance = Tolerance(written) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kMaxLength) continue;
    const size_t distance = EditDistance(written, candidate);
    if (distance >= best_distance) continue;
    best = &candidate;
    best_distance = distance;
  }
  if (best == nullptr) return "";
  return absl::StrCat("; did you mean \"", *best, "\"?");
}

}  // namespace stagecoach
