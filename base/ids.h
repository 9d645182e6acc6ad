#ifndef STAGECOACH_BASE_IDS_H_
#define STAGECOACH_BASE_IDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

namespace stagecoach {

// An integer that is one kind of thing: a StageIndex cannot be passed where a
// MicrobatchIndex is expected. Compares, counts and hashes; for arithmetic take
// `value()`.
template <typename Tag, typename Rep>
class StrongInt {
 public:
  using rep = Rep;

  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }
  // For subscripts.
  constexpr size_t index() const { return static_cast<size_t>(value_); }

  StrongInt& operator++() {
    ++value_;
    return *this;
  }
  constexpr StrongInt Next() const { return StrongInt(value_ + 1); }
  constexpr StrongInt Previous() const { return StrongInt(value_ - 1); }

  friend constexpr bool operator==(StrongInt a, StrongInt b) {
    return a.value_ == b.value_;
  }
  friend constexpr bool operator!=(StrongInt a, StrongInt b) {
    return a.value_ != b.value_;
  }
  friend constexpr bool operator<(StrongInt a, StrongInt b) {
    return a.value_ < b.value_;
  }
  friend constexpr bool operator<=(StrongInt a, StrongInt b) {
    return a.value_ <= b.value_;
  }
  friend constexpr bool operator>(StrongInt a, StrongInt b) {
    return a.value_ > b.value_;
  }
  friend constexpr bool operator>=(StrongInt a, StrongInt b) {
    return a.value_ >= b.value_;
  }
  template <typename H>
  friend H AbslHashValue(H h, StrongInt id) {
    return H::combine(std::move(h), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, StrongInt id) {
    return out << +id.value_;
  }

 private:
  Rep value_ = 0;
};

// A stage of the model, 0 (input) to S-1 (loss).
using StageIndex = StrongInt<struct StageIndexTag, int32_t>;
// A microbatch of one step, 0 to M-1.
using MicrobatchIndex = StrongInt<struct MicrobatchIndexTag, int32_t>;
// The position of a worker in a job, 0 to P-1 (not its name in the cluster).
using WorkerIndex = StrongInt<struct WorkerIndexTag, int32_t>;
// A training step of a job, from 0.
using StepIndex = StrongInt<struct StepIndexTag, int64_t>;
// The number of a job's current placement; grows with each new one.
using Epoch = StrongInt<struct EpochTag, int64_t>;
// Random number that a worker process draws at start.
using Incarnation = StrongInt<struct IncarnationTag, uint64_t>;
// The number of the coordinator's current life.
using Term = StrongInt<struct TermTag, int64_t>;

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_IDS_H_
