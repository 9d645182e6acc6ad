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
#include "memory/category.h"

namespace stagecoach::memory {

// PyTorch's four figures of one quantity. `allocated` and `freed` are sums over
// the process's life.
struct Gauge {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;
  int64_t freed = 0;

  void Add(int64_t bytes);
  void Subtract(int64_t bytes);
};

// A consistent picture: the categories' `current` add up to
// allocated_bytes.current.
struct AllocatorStats {
  Gauge allocated_bytes;  // what was asked for, plus charges
  Gauge active_bytes;     // the same in whole blocks, header and alignment
                          // included
  Gauge reserved_bytes;   // taken from the system; without a cache as active
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
  };

  AccountingAllocator();
  explicit AccountingAllocator(const Options& options);
  // With blocks from `source`, which must outlive them all.
  AccountingAllocator(const Options& options, BlockSource* source);

  // The one that the worker process installs under torch. Never destroyed.
  static AccountingAllocator& Process();
  // Before the first allocation; not thread-safe.
  void Configure(const Options& options);

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

  // Accounts bytes that live elsewhere (a wire arena) as allocated by this
  // process. Never refused, but counted towards the limit.
  void Charge(const Tag& tag, int64_t bytes) SC_EXCLUDES(mu_);
  // Takes back what was charged under the same tag.
  void Discharge(const Tag& tag, int64_t bytes) SC_EXCLUDES(mu_);

  AllocatorStats Stats() const SC_EXCLUDES(mu_);
  // Sets every peak to its current value.
  void ResetPeaks() SC_EXCLUDES(mu_);

 private:
  struct Header;

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

  Options options_;
  BlockSource* const base_source_;
  std::unique_ptr<PoisoningSource> poison_;
  BlockSource* source_;  // the outermost of the nested ones
  mutable Mutex mu_;
  AllocatorStats stats_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_ACCOUNTING_ALLOCATOR_H_
