#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "gtest/gtest.h"
#include "memory/accounting_allocator.h"

namespace stagecoach::memory {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 4000;

struct Block {
  void* data;
  std::shared_ptr<const BlockWatch> watch;
};

// Where threads leave blocks for others to free.
class Exchange {
 public:
  // Leaves `block` and takes another one, once there are some.
  Block Swap(Block block, size_t at) {
    MutexLock lock(&mu_);
    blocks_.push_back(std::move(block));
    if (blocks_.size() < 64) return {nullptr, nullptr};
    std::swap(blocks_[at % blocks_.size()], blocks_.back());
    Block taken = std::move(blocks_.back());
    blocks_.pop_back();
    return taken;
  }
  std::vector<Block> TakeAll() {
    MutexLock lock(&mu_);
    return std::move(blocks_);
  }

 private:
  Mutex mu_;
  std::vector<Block> blocks_ SC_GUARDED_BY(mu_);
};

// Nothing here asserts in a thread: findings are counted.
struct Findings {
  int broken_identity = 0;
  int wrong_watch = 0;
};

bool IdentityHolds(const AllocatorStats& stats) {
  int64_t sum = 0;
  for (const Gauge& gauge : stats.categories) sum += gauge.current;
  return sum == stats.allocated_bytes.current &&
         stats.allocated_bytes.current <= stats.active_bytes.current;
}

void FreeAndCheck(AccountingAllocator* allocator, const Block& block,
                  Findings* findings) {
  if (block.data == nullptr) return;
  if (block.watch->freed()) ++findings->wrong_watch;
  allocator->Free(block.data);
  if (!block.watch->freed()) ++findings->wrong_watch;
}

void Hammer(AccountingAllocator* allocator, Exchange* exchange, int seed,
            Findings* findings) {
  std::mt19937 random(seed);
  for (int i = 0; i < kRounds; ++i) {
    Tag tag;
    tag.category = static_cast<Category>(random() % kCategories);
    tag.stage = StageIndex(random() % 3);
    const ScopedTag scope(tag);
    void* const data = allocator->Allocate(1 + random() % 5000);
    const Block taken =
        exchange->Swap({data, allocator->Watch(data)}, random());
    FreeAndCheck(allocator, taken, findings);
    if (!IdentityHolds(allocator->Stats())) ++findings->broken_identity;
    if (i % 100 == 0) allocator->ResetPeaks();
  }
}

TEST(AccountingAllocatorThreadsTest, IdentityHoldsWhileThreadsFreeEachOthers) {
  AccountingAllocator allocator;
  Exchange exchange;
  std::vector<Findings> findings(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(Hammer, &allocator, &exchange, i, &findings[i]);
  }
  for (std::thread& thread : threads) thread.join();
  for (const Findings& found : findings) {
    EXPECT_EQ(found.broken_identity, 0);
    EXPECT_EQ(found.wrong_watch, 0);
  }
  for (const Block& block : exchange.TakeAll()) allocator.Free(block.data);
  const AllocatorStats stats = allocator.Stats();
  EXPECT_EQ(stats.allocated_bytes.current, 0);
  EXPECT_EQ(stats.allocated_bytes.freed, stats.allocated_bytes.allocated);
  EXPECT_EQ(stats.active_bytes.current, 0);
  for (const Gauge& gauge : stats.categories) EXPECT_EQ(gauge.current, 0);
  for (const auto& [stage, bytes] : stats.stage_activation_bytes) {
    EXPECT_EQ(bytes, 0) << stage;
  }
}

// Four threads want more than the limit allows; at no moment is it passed.
TEST(AccountingAllocatorThreadsTest, LimitHoldsAgainstConcurrentAllocations) {
  AccountingAllocator::Options options;
  options.limit_bytes = 10000;
  AccountingAllocator allocator(options);
  const auto work = [&allocator](int seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < kRounds; ++i) {
      void* const first = allocator.Allocate(1 + random() % 4000);
      void* const second = allocator.Allocate(1 + random() % 4000);
      allocator.Free(first);
      allocator.Free(second);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(allocator.Stats().allocated_bytes.peak, options.limit_bytes);
  EXPECT_EQ(allocator.Stats().allocated_bytes.current, 0);
}

}  // namespace
}  // namespace stagecoach::memory
