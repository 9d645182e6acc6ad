#include "schedule/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::schedule {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

std::string Problem(const PartitionOptions& options) {
  const size_t layers = options.costs.size();
  if (options.stages < 1 || layers < static_cast<size_t>(options.stages)) {
    return absl::StrCat(layers, " layers cannot be cut into ", options.stages,
                        " stages of at least one layer");
  }
  for (size_t i = 0; i < layers; ++i) {
    if (std::isfinite(options.costs[i]) && options.costs[i] >= 0) continue;
    return absl::StrCat("cost ", options.costs[i], " of layer ", i,
                        " is not a duration; it must be 0 or more");
  }
  if (!options.bytes.empty() && options.bytes.size() != layers) {
    return absl::StrCat("bytes of ", options.bytes.size(),
                        " layers are given for ", layers);
  }
  return "";
}

class Partitioner {
 public:
  explicit Partitioner(const PartitionOptions& options)
      : options_(options),
        layers_(options.costs.size()),
        stages_(static_cast<size_t>(options.stages)) {
    for (const double cost : options.costs) {
      cost_before_.push_back(cost_before_.back() + cost);
    }
    for (const int64_t bytes : options.bytes) {
      bytes_before_.push_back(bytes_before_.back() + bytes);
    }
  }

  // The largest stage cost of the best partition; kNone if there is none.
  double SmallestMaximum() {
    const auto maximum = [](double cost, double rest) {
      return std::max(cost, rest);
    };
    return Solve(kNone, maximum);
  }
  // Least sum of squares with every stage at most `bound`.
  std::vector<int> LeastSquares(double bound) {
    Solve(bound, [](double cost, double rest) { return cost * cost + rest; });
    std::vector<int> layers;
    size_t first = 0;
    for (size_t left = stages_; left > 0; --left) {
      layers.push_back(static_cast<int>(take_[left][first]));
      first += take_[left][first];
    }
    return layers;
  }
  double Cost(size_t first, size_t count) const {
    return cost_before_[first + count] - cost_before_[first];
  }

 private:
  bool Fits(size_t first, size_t count) const {
    return options_.bytes.empty() || options_.limit_bytes == 0 ||
           bytes_before_[first + count] - bytes_before_[first] <=
               options_.limit_bytes;
  }

  // best_[left][first]: of `left` stages over the layers from `first`.
  template <typename Combine>
  double Solve(double bound, Combine combine) {
    best_.assign(stages_ + 1, std::vector<double>(layers_ + 1, kNone));
    take_.assign(stages_ + 1, std::vector<size_t>(layers_ + 1, 0));
    best_[0][layers_] = 0;
    for (size_t left = 1; left <= stages_; ++left) {
      for (size_t first = 0; first + left <= layers_; ++first) {
        const size_t most = layers_ - first - (left - 1);
        for (size_t count = most; count > 0; --count) {
          const double cost = Cost(first, count);
          const double rest = best_[left - 1][first + count];
          if (cost > bound || rest == kNone || !Fits(first, count)) continue;
          const double value = combine(cost, rest);
          if (value >= best_[left][first]) continue;
          best_[left][first] = value;
          take_[left][first] = count;
        }
      }
    }
    return best_[stages_][0];
  }

  const PartitionOptions& options_;
  const size_t layers_;
  const size_t stages_;
  std::vector<double> cost_before_ = {0};
  std::vector<int64_t> bytes_before_ = {0};
  std::vector<std::vector<double>> best_;
  std::vector<std::vector<size_t>> take_;
};

double EvenCost(const Partitioner& partitioner, size_t layers, size_t stages) {
  double largest = 0;
  size_t first = 0;
  for (size_t s = 0; s < stages; ++s) {
    const size_t count = layers / stages + (s < layers % stages ? 1 : 0);
    largest = std::max(largest, partitioner.Cost(first, count));
    first += count;
  }
  return largest;
}

}  // namespace

absl::StatusOr<Partition> PartitionLayers(const PartitionOptions& options) {
  if (std::string problem = Problem(options); !problem.empty()) {
    return absl::InvalidArgumentError(problem);
  }
  Partitioner partitioner(options);
  Partition partition;
  partition.largest_cost = partitioner.SmallestMaximum();
  if (partition.largest_cost == kNone) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no cut into ", options.stages, " stages keeps each within ",
        options.limit_bytes, " bytes; raise the limit, or take more workers"));
  }
  partition.layers = partitioner.LeastSquares(partition.largest_cost);
  partition.even_cost = EvenCost(partitioner, options.costs.size(),
                                 static_cast<size_t>(options.stages));
  return partition;
}

}  // namespace stagecoach::schedule
