#include "memory/caching_source.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "memory/accounting_allocator.h"

namespace stagecoach::memory {
namespace {

constexpr size_t kBlock = size_t{1} << 20;

// The heap with a count, and no more than `left` bytes.
class CountedSource final : public BlockSource {
 public:
  void* Take(size_t bytes) override {
    if (static_cast<int64_t>(bytes) > left) return nullptr;
    left -= static_cast<int64_t>(bytes);
    ++taken;
    return std::aligned_alloc(kBlockAlignment, bytes);
  }
  void Give(void* block, size_t bytes) override {
    left += static_cast<int64_t>(bytes);
    ++given;
    std::free(block);
  }
  int64_t left = int64_t{1} << 40;
  int taken = 0;
  int given = 0;
};

TEST(CachingSourceTest, ABlockOfTheSameSizeComesBack) {
  CountedSource heap;
  CachingSource cache(&heap, int64_t{1} << 30);
  void* const block = cache.Take(kBlock);
  cache.Give(block, kBlock);
  EXPECT_EQ(cache.cached_bytes(), static_cast<int64_t>(kBlock));
  EXPECT_EQ(cache.Take(kBlock), block);
  EXPECT_EQ(cache.cached_bytes(), 0);
  void* const other = cache.Take(2 * kBlock);
  EXPECT_EQ(heap.taken, 2);
  EXPECT_EQ(heap.given, 0);
  cache.Give(block, kBlock);
  cache.Give(other, 2 * kBlock);
  EXPECT_EQ(cache.Trim(), static_cast<int64_t>(3 * kBlock));
  EXPECT_EQ(heap.given, 2);
}

TEST(CachingSourceTest, SmallBlocksAreTheHeaps) {
  CountedSource heap;
  CachingSource cache(&heap, int64_t{1} << 30);
  cache.Give(cache.Take(64), 64);
  EXPECT_EQ(heap.given, 1);
  EXPECT_EQ(cache.cached_bytes(), 0);
}

TEST(CachingSourceTest, AboveTheCapTheSizeUsedLongestAgoGoes) {
  CountedSource heap;
  CachingSource cache(&heap, static_cast<int64_t>(5 * kBlock));
  void* const one = cache.Take(kBlock);
  void* const two = cache.Take(2 * kBlock);
  void* const three = cache.Take(3 * kBlock);
  cache.Give(one, kBlock);
  cache.Give(two, 2 * kBlock);
  EXPECT_EQ(heap.given, 0);
  cache.Give(three, 3 * kBlock);
  EXPECT_EQ(heap.given, 1) << "one block of the first size was enough";
  EXPECT_EQ(cache.cached_bytes(), static_cast<int64_t>(5 * kBlock));
  EXPECT_EQ(cache.Take(2 * kBlock), two);
  EXPECT_EQ(cache.Take(3 * kBlock), three);
  cache.Give(two, 2 * kBlock);
  cache.Give(three, 3 * kBlock);
}

TEST(CachingSourceTest, EverythingGoesBackInTheEnd) {
  CountedSource heap;
  {
    CachingSource cache(&heap, int64_t{1} << 30);
    cache.Give(cache.Take(kBlock), kBlock);
  }
  EXPECT_EQ(heap.given, heap.taken);
}

TEST(CachingSourceTest, ManyThreadsShareIt) {
  AccountingAllocator::Options options;
  options.cache_bytes = int64_t{64} << 20;
  AccountingAllocator allocator(options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&allocator, t] {
      for (int i = 0; i < 200; ++i) {
        const size_t bytes = kBlock / 8 * static_cast<size_t>(1 + (i + t) % 3);
        void* const block = allocator.Allocate(bytes);
        ASSERT_NE(block, nullptr);
        std::memset(block, t, 64);
        allocator.Free(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.Stats().allocated_bytes.current, 0);
  EXPECT_GT(allocator.Stats().reserved_bytes.current, 0);
  EXPECT_GT(allocator.Trim(), 0);
  EXPECT_EQ(allocator.Stats().reserved_bytes.current, 0);
}

AccountingAllocator::Options Cached(int64_t limit) {
  AccountingAllocator::Options options;
  options.cache_bytes = int64_t{1} << 30;
  options.limit_bytes = limit;
  return options;
}

TEST(CachedAllocatorTest, ShowsWhatIsCachedAndGivesItBack) {
  CountedSource heap;
  AccountingAllocator allocator(Cached(0), &heap);
  allocator.Free(allocator.Allocate(kBlock));
  AllocatorStats stats = allocator.Stats();
  EXPECT_EQ(stats.allocated_bytes.current, 0);
  EXPECT_EQ(stats.active_bytes.current, 0);
  EXPECT_GE(stats.reserved_bytes.current, static_cast<int64_t>(kBlock));
  EXPECT_EQ(allocator.Trim(), stats.reserved_bytes.current);
  EXPECT_EQ(allocator.Stats().reserved_bytes.current, 0);
}

// What the cache keeps of one size must not be missing for another.
TEST(CachedAllocatorTest, AFailedAllocationFreesCachedBlocksAndTriesAgain) {
  CountedSource heap;
  heap.left = static_cast<int64_t>(3 * kBlock);
  AccountingAllocator allocator(Cached(0), &heap);
  void* const first = allocator.Allocate(kBlock);
  void* const second = allocator.Allocate(kBlock);
  ASSERT_NE(second, nullptr);
  allocator.Free(first);
  allocator.Free(second);
  void* const large = allocator.Allocate(2 * kBlock);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(heap.given, 2);
  EXPECT_EQ(allocator.Allocate(2 * kBlock), nullptr) << "really nothing left";
  allocator.Free(large);
}

TEST(CachedAllocatorTest, CachedBytesCountTowardsTheLimit) {
  CountedSource heap;
  AccountingAllocator allocator(Cached(static_cast<int64_t>(3 * kBlock)),
                                &heap);
  allocator.Free(allocator.Allocate(kBlock));
  allocator.Free(allocator.Allocate(kBlock + kBlock / 2));
  void* const block = allocator.Allocate(2 * kBlock);
  ASSERT_NE(block, nullptr);
  EXPECT_LE(allocator.Stats().reserved_bytes.peak,
            static_cast<int64_t>(3 * kBlock));
  allocator.Free(block);
}

}  // namespace
}  // namespace stagecoach::memory
