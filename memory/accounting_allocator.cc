#include "memory/accounting_allocator.h"

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

namespace stagecoach::memory {
namespace {

constexpr size_t kHeaderBytes = kBlockAlignment;
constexpr size_t kMaxBytes = std::numeric_limits<int64_t>::max() / 2;
constexpr uint64_t kLiveSeal = 0x51A6EC0A51A6EC0Au;
constexpr uint64_t kFreedSeal = 0xDEADDEADDEADDEADu;

int64_t BlockBytes(size_t bytes) {
  const size_t rounded =
      (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  return static_cast<int64_t>(kHeaderBytes + rounded);
}

[[noreturn]] void DieOfCorruption(const void* block) {
  std::fprintf(stderr,
               "AccountingAllocator: block %p was freed twice or is not one "
               "of this allocator's: memory is corrupt\n",
               block);
  std::abort();
}

template <typename Visitor>
void ForEachGauge(AllocatorStats* stats, Visitor visit) {
  visit(&stats->allocated_bytes);
  visit(&stats->active_bytes);
  for (Gauge& gauge : stats->categories) visit(&gauge);
}

}  // namespace

// Lies right before the block. The seal is last because free() writes its own
// links into the first 32 bytes, and a second Free() should still find it.
struct AccountingAllocator::Header {
  int64_t bytes;
  int64_t block_bytes;
  std::shared_ptr<BlockWatch> watch;  // null until somebody watches
  Tag tag;
  uint64_t seal;
};

AccountingAllocator::AccountingAllocator() : AccountingAllocator(Options()) {}

AccountingAllocator::AccountingAllocator(const Options& options)
    : AccountingAllocator(options, SystemBlockSource()) {}

AccountingAllocator::AccountingAllocator(const Options& options,
                                         BlockSource* source)
    : reserving_(source), source_(&reserving_) {
  Configure(options);
}

AccountingAllocator& AccountingAllocator::Process() {
  static auto* const allocator = new AccountingAllocator;
  return *allocator;
}

void AccountingAllocator::Configure(const Options& options) {
  limit_bytes_ = options.limit_bytes;
  source_ = &reserving_;
  poison_.reset();
  cache_.reset();
  if (options.cache_bytes > 0) {
    cache_ = std::make_unique<CachingSource>(source_, options.cache_bytes);
    source_ = cache_.get();
  }
  if (!options.poison_freed) return;
  poison_ = std::make_unique<PoisoningSource>(source_);
  source_ = poison_.get();
}

void* AccountingAllocator::Allocate(size_t bytes) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  if (bytes == 0 || bytes > kMaxBytes) return nullptr;
  const auto asked = static_cast<int64_t>(bytes);
  const int64_t block_bytes = BlockBytes(bytes);
  if (limit_bytes_ > 0) {
    // Before the system is asked for what may be absurd. TryAccount decides.
    MutexLock lock(&mu_);
    if (!WithinLimit(asked)) return nullptr;
  }
  void* const raw = TakeBlock(block_bytes);
  if (raw == nullptr) return nullptr;
  const Tag& tag = CurrentTag();
  if (!TryAccount(tag, asked, block_bytes)) {
    source_->Give(raw, static_cast<size_t>(block_bytes));
    return nullptr;
  }
  new (raw) Header{asked, block_bytes, nullptr, tag, LiveSeal()};
  return static_cast<char*>(raw) + kHeaderBytes;
}

void* AccountingAllocator::TakeBlock(int64_t block_bytes) {
  const int64_t limit = limit_bytes_;
  const bool near =
      limit > 0 && reserving_.reserved().current > limit - block_bytes;
  if (near && cache_ != nullptr &&
      !cache_->Has(static_cast<size_t>(block_bytes))) {
    cache_->Empty();
  }
  void* const raw = source_->Take(static_cast<size_t>(block_bytes));
  if (raw != nullptr || source_->Trim() == 0) return raw;
  return source_->Take(static_cast<size_t>(block_bytes));
}

void AccountingAllocator::Free(void* block) {
  if (block == nullptr) return;
  Header* header;
  std::shared_ptr<BlockWatch> watch;
  {
    MutexLock lock(&mu_);
    header = LiveHeader(block);
    header->seal = kFreedSeal;
    watch = std::move(header->watch);
    Subtract(header->tag, header->bytes, header->block_bytes);
  }
  // The header's destructor would have nothing to do, and calling it would let
  // the compiler leave out the write of the seal.
  source_->Give(header, static_cast<size_t>(header->block_bytes));
  if (watch != nullptr) watch->freed_.store(true, std::memory_order_release);
}

std::shared_ptr<const BlockWatch> AccountingAllocator::Watch(void* block) {
  if (block == nullptr) return nullptr;
  MutexLock lock(&mu_);
  Header* const header = LiveHeader(block);
  if (header->watch == nullptr) {
    header->watch = std::make_shared<BlockWatch>(header->bytes);
  }
  return header->watch;
}

Tag AccountingAllocator::TagOf(void* block) const {
  MutexLock lock(&mu_);
  return LiveHeader(block)->tag;
}

std::array<int64_t, kCategories> AccountingAllocator::CurrentBytes() const {
  std::array<int64_t, kCategories> bytes;
  MutexLock lock(&mu_);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = stats_.categories[i].current;
  }
  return bytes;
}

void AccountingAllocator::Charge(const Tag& tag, int64_t bytes) {
  reserving_.Add(bytes);
  MutexLock lock(&mu_);
  Add(tag, bytes, bytes);
}

void AccountingAllocator::Discharge(const Tag& tag, int64_t bytes) {
  reserving_.Subtract(bytes);
  MutexLock lock(&mu_);
  Subtract(tag, bytes, bytes);
}

AllocatorStats AccountingAllocator::Stats() const {
  AllocatorStats stats;
  {
    MutexLock lock(&mu_);
    stats = stats_;
  }
  stats.reserved_bytes = reserving_.reserved();
  return stats;
}

void AccountingAllocator::ResetPeaks() {
  reserving_.ResetPeak();
  MutexLock lock(&mu_);
  ForEachGauge(&stats_, [](Gauge* gauge) { gauge->peak = gauge->current; });
}

// Differs between allocators, so that one does not take another's block.
uint64_t AccountingAllocator::LiveSeal() const {
  return kLiveSeal ^ reinterpret_cast<uintptr_t>(this);
}

AccountingAllocator::Header* AccountingAllocator::LiveHeader(
    void* block) const {
  if (reinterpret_cast<uintptr_t>(block) % kBlockAlignment != 0) {
    DieOfCorruption(block);
  }
  auto* const header =
      reinterpret_cast<Header*>(static_cast<char*>(block) - kHeaderBytes);
  if (header->seal != LiveSeal()) DieOfCorruption(block);
  return header;
}

bool AccountingAllocator::WithinLimit(int64_t bytes) const {
  const int64_t limit = limit_bytes_;
  return limit <= 0 || bytes <= limit - stats_.allocated_bytes.current;
}

bool AccountingAllocator::TryAccount(const Tag& tag, int64_t bytes,
                                     int64_t block_bytes) {
  MutexLock lock(&mu_);
  if (!WithinLimit(bytes)) return false;
  Add(tag, bytes, block_bytes);
  return true;
}

void AccountingAllocator::Add(const Tag& tag, int64_t bytes,
                              int64_t block_bytes) {
  stats_.allocated_bytes.Add(bytes);
  stats_.active_bytes.Add(block_bytes);
  stats_.categories[static_cast<size_t>(tag.category)].Add(bytes);
  if (tag.category == Category::kActivation && tag.stage.value() >= 0) {
    stats_.stage_activation_bytes[tag.stage] += bytes;
  }
}

void AccountingAllocator::Subtract(const Tag& tag, int64_t bytes,
                                   int64_t block_bytes) {
  stats_.allocated_bytes.Subtract(bytes);
  stats_.active_bytes.Subtract(block_bytes);
  stats_.categories[static_cast<size_t>(tag.category)].Subtract(bytes);
  if (tag.category == Category::kActivation && tag.stage.value() >= 0) {
    stats_.stage_activation_bytes[tag.stage] -= bytes;
  }
}

}  // namespace stagecoach::memory
