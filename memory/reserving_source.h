#ifndef STAGECOACH_MEMORY_RESERVING_SOURCE_H_
#define STAGECOACH_MEMORY_RESERVING_SOURCE_H_

#include <cstddef>
#include <cstdint>

#include "base/mutex.h"
#include "memory/block_source.h"
#include "memory/gauge.h"

namespace stagecoach::memory {

// Counts what the process has from the system: blocks that pass, in use or kept
// by a cache above this source, and what is charged by hand. Thread-safe.
class ReservingSource final : public BlockSource {
 public:
  explicit ReservingSource(BlockSource* upstream) : upstream_(upstream) {}

  void* Take(size_t bytes) override SC_EXCLUDES(mu_) {
    void* const block = upstream_->Take(bytes);
    if (block != nullptr) Add(static_cast<int64_t>(bytes));
    return block;
  }
  void Give(void* block, size_t bytes) override SC_EXCLUDES(mu_) {
    upstream_->Give(block, bytes);
    Subtract(static_cast<int64_t>(bytes));
  }
  int64_t Trim() override { return upstream_->Trim(); }

  void Add(int64_t bytes) SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    reserved_.Add(bytes);
  }
  void Subtract(int64_t bytes) SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    reserved_.Subtract(bytes);
  }
  Gauge reserved() const SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return reserved_;
  }
  void ResetPeak() SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    reserved_.peak = reserved_.current;
  }

 private:
  BlockSource* const upstream_;
  mutable Mutex mu_;
  Gauge reserved_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_RESERVING_SOURCE_H_
