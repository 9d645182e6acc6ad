#ifndef STAGECOACH_MEMORY_BLOCK_SOURCE_H_
#define STAGECOACH_MEMORY_BLOCK_SOURCE_H_

#include <cstddef>
#include <cstdint>

namespace stagecoach::memory {

// Every block starts on such a boundary and is a multiple of it long: a cache
// line, and enough for every vector instruction.
inline constexpr size_t kBlockAlignment = 64;

// Where whole blocks come from, below the accounting. Sources nest: each adds
// one behaviour to another source. Implementations are thread-safe.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  // A block of `bytes` (a positive multiple of kBlockAlignment) with
  // indeterminate content; nullptr when there is none.
  virtual void* Take(size_t bytes) = 0;
  // Takes back what Take(bytes) returned.
  virtual void Give(void* block, size_t bytes) = 0;
  // Gives back to the system what is kept for later, here and above it;
  // returns the bytes that are known.
  virtual int64_t Trim() { return 0; }
};

// The system's heap, which may keep for itself what it was given. Lives for
// ever.
BlockSource* SystemBlockSource();

// Fills what is given back with 0xFF: NaN in every floating type, -1 in signed
// integers. `upstream` must outlive it.
class PoisoningSource final : public BlockSource {
 public:
  explicit PoisoningSource(BlockSource* upstream) : upstream_(upstream) {}
  void* Take(size_t bytes) override { return upstream_->Take(bytes); }
  void Give(void* block, size_t bytes) override;
  int64_t Trim() override { return upstream_->Trim(); }

 private:
  BlockSource* const upstream_;
};

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_BLOCK_SOURCE_H_
