#include "memory/caching_source.h"

namespace stagecoach::memory {

CachingSource::SizeClass& CachingSource::Use(size_t bytes) {
  auto [it, added] = classes_.try_emplace(bytes);
  if (!added) uses_.erase(it->second.use);
  uses_.push_front(bytes);
  it->second.use = uses_.begin();
  return it->second;
}

void* CachingSource::Take(size_t bytes) {
  if (bytes >= kSmallestBytes) {
    MutexLock lock(&mu_);
    std::vector<void*>& blocks = Use(bytes).blocks;
    if (!blocks.empty()) {
      void* const block = blocks.back();
      blocks.pop_back();
      cached_bytes_ -= static_cast<int64_t>(bytes);
      return block;
    }
  }
  return upstream_->Take(bytes);
}

void CachingSource::Give(void* block, size_t bytes) {
  if (bytes < kSmallestBytes) return upstream_->Give(block, bytes);
  std::vector<Block> evicted;
  {
    MutexLock lock(&mu_);
    Use(bytes).blocks.push_back(block);
    cached_bytes_ += static_cast<int64_t>(bytes);
    if (cached_bytes_ > cap_bytes_) evicted = Evict(cap_bytes_);
  }
  GiveUpstream(evicted);
}

std::vector<CachingSource::Block> CachingSource::Evict(int64_t most_bytes) {
  std::vector<Block> evicted;
  while (cached_bytes_ > most_bytes && !uses_.empty()) {
    const size_t bytes = uses_.back();
    std::vector<void*>& blocks = classes_.at(bytes).blocks;
    while (cached_bytes_ > most_bytes && !blocks.empty()) {
      evicted.push_back(Block{blocks.back(), bytes});
      blocks.pop_back();
      cached_bytes_ -= static_cast<int64_t>(bytes);
    }
    if (!blocks.empty()) break;
    uses_.pop_back();
    classes_.erase(bytes);
  }
  return evicted;
}

void CachingSource::GiveUpstream(const std::vector<Block>& blocks) {
  for (const Block& block : blocks) upstream_->Give(block.data, block.bytes);
}

int64_t CachingSource::Empty() {
  std::vector<Block> evicted;
  int64_t before = 0;
  {
    MutexLock lock(&mu_);
    before = cached_bytes_;
    evicted = Evict(0);
  }
  GiveUpstream(evicted);
  return before;
}

bool CachingSource::Has(size_t bytes) const {
  MutexLock lock(&mu_);
  const auto found = classes_.find(bytes);
  return found != classes_.end() && !found->second.blocks.empty();
}

int64_t CachingSource::cached_bytes() const {
  MutexLock lock(&mu_);
  return cached_bytes_;
}

}  // namespace stagecoach::memory
