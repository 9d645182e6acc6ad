#include "memory/transfer_history.h"

#include <iterator>

namespace stagecoach::memory {
namespace {

TransferKey WithoutStep(TransferKey key) {
  key.epoch = Epoch();
  key.step = StepIndex();
  return key;
}

template <typename Intervals>
bool Covers(const Intervals& intervals, int64_t step) {
  const auto after = intervals.upper_bound(step);
  return after != intervals.begin() && step < std::prev(after)->second;
}

}  // namespace

void TransferHistory::Insert(const TransferKey& key) {
  Intervals& intervals = steps_[WithoutStep(key)];
  const int64_t step = key.step.value();
  if (Covers(intervals, step)) return;
  auto it = intervals.emplace(step, step + 1).first;
  if (const auto next = std::next(it);
      next != intervals.end() && next->first == it->second) {
    it->second = next->second;
    intervals.erase(next);
  }
  if (it == intervals.begin()) return;
  if (const auto previous = std::prev(it); previous->second == step) {
    previous->second = it->second;
    intervals.erase(it);
  }
}

bool TransferHistory::Contains(const TransferKey& key) const {
  const auto it = steps_.find(WithoutStep(key));
  return it != steps_.end() && Covers(it->second, key.step.value());
}

int64_t TransferHistory::intervals() const {
  int64_t count = 0;
  for (const auto& [key, intervals] : steps_) {
    count += static_cast<int64_t>(intervals.size());
  }
  return count;
}

}  // namespace stagecoach::memory
