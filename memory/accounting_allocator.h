#ifndef STAGECOACH_MEMORY_ACCOUNTING_ALLOCATOR_H_
#define STAGECOACH_MEMORY_ACCOUNTING_ALLOCATOR_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "memory/block_source.h"
#include "memory/caching_source.h"
#include "memory/category.h"
#include "memory/gauge.h"
#include "memory/reserving_source.h"

namespace stagecoach::memory {

// A consistent picture: the categories' `current` add up to
// allocated_bytes.current.
struct AllocatorStats {
  Gauge allocated_bytes;  // what was asked for, plus charges
  Gauge active_bytes;     // the same in whole blocks, header and alignment
                          // included
  Gauge reserved_bytes;   // taken from the system: active and cached
  std::array<Gauge, kCategories> categories;
  // Activation bytes now, by stage; tags without a stage are left out.
  std::map<StageIndex, int64_t> stage_activation_bytes;
};

// Tells whether one block has been freed. Thread-safe; outlives block and
// allocator.
class BlockWatch {
 public:
  explicit BlockWatch(int64_t bytes) : bytes_(bytes) {}
  bool freed() const { return freed_.load(std::memory_order_acquire); }
  int64_t bytes() const { return bytes_; }

 private:
  friend class AccountingAllocator;
  const int64_t bytes_;
  std::atomic<bool> freed_{false};
};

// The hook under a worker's tensors: hands out 64-byte aligned blocks, accounts
// each under the calling thread's tag, and is the only place that says "freed".
// A block may be freed on any thread; it is accounted under the tag it was
// allocated with. Thread-safe. Blocks may outlive everything else, so the
// process's allocator (Process()) lives for ever.
class AccountingAllocator {
 public:
  struct Options {
    // Fill freed blocks with 0xFF (NaN in every floating type, -1 in integers)
    // before they go, so that a late reader fails loudly. For tests and
    // debugging.
    bool poison_freed = false;
    // An allocation that would lift allocated_bytes, charges included, above
    // this is refused; 0: no limit.
    int64_t limit_bytes = 0;
    // Keep at most so many freed bytes for blocks of the same size; 0: none.
    // They count towards the limit: when it is near, or the system has nothing
    // left, they are given back first.
    int64_t cache_bytes = 0;
  };

  AccountingAllocator();
  explicit AccountingAllocator(const Options& options);
  // With blocks from `source`, which must outlive them all.
  AccountingAllocator(const Options& options, BlockSource* source);

  // The one that the worker process installs under torch. Never destroyed.
  static AccountingAllocator& Process();
  // Before the first allocation; not thread-safe.
  void Configure(const Options& options);
  // From now on, as Options::limit_bytes.
  void SetLimit(int64_t limit_bytes) { limit_bytes_ = limit_bytes; }
  int64_t limit_bytes() const { return limit_bytes_; }

  // nullptr for 0 bytes, and when the limit or the system refuses (nothing is
  // accounted then). The content is indeterminate.
  void* Allocate(size_t bytes) SC_EXCLUDES(mu_);
  // Aborts the process on a foreign pointer or a double free: memory is
  // corrupt already. nullptr is ignored.
  void Free(void* block) SC_EXCLUDES(mu_);

  // Follows the life of a live block (`block` as Allocate returned it; any
  // other aborts as Free does). The watches of one block are the same object.
  // Costs one lock, and one small allocation the first time. nullptr for
  // nullptr.
  std::shared_ptr<const BlockWatch> Watch(void* block) SC_EXCLUDES(mu_);

  // What a live block was allocated as; aborts as Free does.
  Tag TagOf(void* block) const SC_EXCLUDES(mu_);
  // Of each category, now: what Stats() says, for less.
  std::array<int64_t, kCategories> CurrentBytes() const SC_EXCLUDES(mu_);

  // Accounts bytes that live elsewhere (a wire arena) as allocated by this
  // process. Never refused, but counted towards the limit.
  void Charge(const Tag& tag, int64_t bytes) SC_EXCLUDES(mu_);
  // Takes back what was charged under the same tag.
  void Discharge(const Tag& tag, int64_t bytes) SC_EXCLUDES(mu_);

  // Gives back to the system what is cached; returns the bytes.
  int64_t Trim() { return source_->Trim(); }

  AllocatorStats Stats() const SC_EXCLUDES(mu_);
  // Sets every peak to its current value.
  void ResetPeaks() SC_EXCLUDES(mu_);

 private:
  struct Header;

  // A block of the sources; gives cached ones back and tries once more.
  void* TakeBlock(int64_t block_bytes);
  // What a live block of this allocator carries in its header.
  uint64_t LiveSeal() const;
  // Aborts unless `block` is live.
  Header* LiveHeader(void* block) const SC_REQUIRES(mu_);
  bool WithinLimit(int64_t bytes) const SC_REQUIRES(mu_);
  // False, and nothing changes, when the limit refuses.
  bool TryAccount(const Tag& tag, int64_t bytes, int64_t block_bytes)
      SC_EXCLUDES(mu_);
  void Add(const Tag& tag, int64_t bytes, int64_t block_bytes) SC_REQUIRES(mu_);
  void Subtract(const Tag& tag, int64_t bytes, int64_t block_bytes)
      SC_REQUIRES(mu_);

  std::atomic<int64_t> limit_bytes_{0};
  // Nested, from the system outwards.
  ReservingSource reserving_;
  std::unique_ptr<CachingSource> cache_;
  std::unique_ptr<PoisoningSource> poison_;
  BlockSource* source_;  // the outermost of the nested ones
  mutable Mutex mu_;
  AllocatorStats stats_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_ACCOUNTING_ALLOCATOR_H_
