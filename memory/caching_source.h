#ifndef STAGECOACH_MEMORY_CACHING_SOURCE_H_
#define STAGECOACH_MEMORY_CACHING_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "memory/block_source.h"

namespace stagecoach::memory {

// Keeps blocks that are given back for the next of the same size: a training
// step takes the same sizes again and again. What the system is given back it
// hands out as fresh pages, each with a page fault at its first use (glibc maps
// blocks of 32 MiB and more afresh every time).
//
// Small blocks pass through: the heap keeps those itself. Above the cap the
// sizes that were used longest ago go first. Thread-safe.
class CachingSource final : public BlockSource {
 public:
  static constexpr size_t kSmallestBytes = size_t{64} << 10;

  // `upstream` must outlive it and every block. It keeps at most `cap_bytes`.
  CachingSource(BlockSource* upstream, int64_t cap_bytes)
      : upstream_(upstream), cap_bytes_(cap_bytes) {}
  ~CachingSource() override { Empty(); }

  void* Take(size_t bytes) override SC_EXCLUDES(mu_);
  void Give(void* block, size_t bytes) override SC_EXCLUDES(mu_);
  int64_t Trim() override { return Empty() + upstream_->Trim(); }

  // Gives what it keeps upstream; returns the bytes.
  int64_t Empty() SC_EXCLUDES(mu_);

  int64_t cached_bytes() const SC_EXCLUDES(mu_);
  // Whether a block of this size is there.
  bool Has(size_t bytes) const SC_EXCLUDES(mu_);

 private:
  struct SizeClass {
    std::vector<void*> blocks;
    std::list<size_t>::iterator use;  // in uses_
  };
  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
  };

  SizeClass& Use(size_t bytes) SC_REQUIRES(mu_);
  // Takes blocks out until `most_bytes` are left; the caller gives them back
  // without the lock.
  std::vector<Block> Evict(int64_t most_bytes) SC_REQUIRES(mu_);
  void GiveUpstream(const std::vector<Block>& blocks);

  BlockSource* const upstream_;
  const int64_t cap_bytes_;
  mutable Mutex mu_;
  std::map<size_t, SizeClass> classes_ SC_GUARDED_BY(mu_);
  std::list<size_t> uses_ SC_GUARDED_BY(mu_);  // sizes, the last used in front
  int64_t cached_bytes_ SC_GUARDED_BY(mu_) = 0;
};

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_CACHING_SOURCE_H_
