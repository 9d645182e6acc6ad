#include "memory/accounting_allocator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace stagecoach::memory {
namespace {

Tag MakeTag(Category category, int stage = -1) {
  Tag tag;
  tag.category = category;
  tag.stage = StageIndex(stage);
  return tag;
}

const Gauge& Of(const AllocatorStats& stats, Category category) {
  return stats.categories[static_cast<size_t>(category)];
}

int64_t SumOfCategories(const AllocatorStats& stats) {
  int64_t sum = 0;
  for (const Gauge& gauge : stats.categories) sum += gauge.current;
  return sum;
}

// Keeps what is given back mapped, so that a test may look at freed blocks.
class KeepingSource final : public BlockSource {
 public:
  ~KeepingSource() override {
    for (const auto& [block, bytes] : kept_) {
      SystemBlockSource()->Give(block, bytes);
    }
  }
  void* Take(size_t bytes) override { return SystemBlockSource()->Take(bytes); }
  void Give(void* block, size_t bytes) override { kept_[block] = bytes; }

 private:
  std::map<void*, size_t> kept_;
};

class EmptySource final : public BlockSource {
 public:
  void* Take(size_t) override { return nullptr; }
  void Give(void*, size_t) override { FAIL() << "nothing was taken"; }
};

// Lets somebody else allocate while a block is on its way.
class BusySource final : public BlockSource {
 public:
  void* Take(size_t bytes) override {
    ++takes;
    if (const auto once = std::exchange(meanwhile, nullptr)) once();
    return SystemBlockSource()->Take(bytes);
  }
  void Give(void* block, size_t bytes) override {
    SystemBlockSource()->Give(block, bytes);
  }
  std::function<void()> meanwhile;
  int takes = 0;
};

// ---- What holds for every nesting ------------------------------------------

struct NestingCase {
  const char* name;
  AccountingAllocator::Options options;
};

NestingCase Nesting(const char* name, bool poison, int64_t limit_bytes) {
  NestingCase nesting;
  nesting.name = name;
  nesting.options.poison_freed = poison;
  nesting.options.limit_bytes = limit_bytes;
  return nesting;
}

class AccountingAllocatorConformance
    : public ::testing::TestWithParam<NestingCase> {
 protected:
  AccountingAllocator allocator_{GetParam().options};
};

TEST_P(AccountingAllocatorConformance, BlocksAreAlignedWhateverTheirSize) {
  std::vector<void*> blocks;
  for (size_t bytes = 1; bytes < 3000; bytes += 37) {
    blocks.push_back(allocator_.Allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % 64, 0u) << bytes;
  }
  for (void* block : blocks) allocator_.Free(block);
}

TEST_P(AccountingAllocatorConformance, EveryByteOfABlockIsTheCallers) {
  std::vector<unsigned char*> blocks;
  for (int i = 1; i <= 200; ++i) {
    blocks.push_back(static_cast<unsigned char*>(allocator_.Allocate(i)));
    std::memset(blocks.back(), i, i);
  }
  for (int i = 1; i <= 200; ++i) {
    for (int j = 0; j < i; ++j) ASSERT_EQ(blocks[i - 1][j], i);
    allocator_.Free(blocks[i - 1]);
  }
}

TEST_P(AccountingAllocatorConformance, ZeroBytesIsNullAndNullMayBeFreed) {
  EXPECT_EQ(allocator_.Allocate(0), nullptr);
  allocator_.Free(nullptr);
  EXPECT_EQ(allocator_.Stats().allocated_bytes.allocated, 0);
}

TEST_P(AccountingAllocatorConformance, CountsCurrentPeakAllocatedAndFreed) {
  void* const first = allocator_.Allocate(1000);
  void* const second = allocator_.Allocate(500);
  allocator_.Free(first);
  void* const third = allocator_.Allocate(100);
  const Gauge gauge = allocator_.Stats().allocated_bytes;
  EXPECT_EQ(gauge.current, 600);
  EXPECT_EQ(gauge.peak, 1500);
  EXPECT_EQ(gauge.allocated, 1600);
  EXPECT_EQ(gauge.freed, 1000);
  allocator_.Free(second);
  allocator_.Free(third);
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 0);
  EXPECT_EQ(allocator_.Stats().active_bytes.current, 0);
  EXPECT_EQ(allocator_.Stats().reserved_bytes.current, 0);
}

TEST_P(AccountingAllocatorConformance, CategoriesAddUpToAllocatedBytes) {
  std::vector<void*> blocks;
  for (int i = 0; i < kCategories; ++i) {
    const ScopedTag tag(MakeTag(static_cast<Category>(i)));
    blocks.push_back(allocator_.Allocate(100 + i));
    const AllocatorStats stats = allocator_.Stats();
    EXPECT_EQ(Of(stats, static_cast<Category>(i)).current, 100 + i);
    EXPECT_EQ(SumOfCategories(stats), stats.allocated_bytes.current);
  }
  for (void* block : blocks) {
    allocator_.Free(block);
    const AllocatorStats stats = allocator_.Stats();
    EXPECT_EQ(SumOfCategories(stats), stats.allocated_bytes.current);
  }
}

TEST_P(AccountingAllocatorConformance, WatchTellsWhenItsBlockIsFreed) {
  void* const block = allocator_.Allocate(100);
  void* const other = allocator_.Allocate(100);
  const auto watch = allocator_.Watch(block);
  EXPECT_EQ(watch->bytes(), 100);
  allocator_.Free(other);
  EXPECT_FALSE(watch->freed());
  allocator_.Free(block);
  EXPECT_TRUE(watch->freed());
}

INSTANTIATE_TEST_SUITE_P(
    Nestings, AccountingAllocatorConformance,
    ::testing::Values(Nesting("Plain", false, 0), Nesting("Poison", true, 0),
                      Nesting("Limit", false, 1 << 20),
                      Nesting("PoisonAndLimit", true, 1 << 20)),
    [](const ::testing::TestParamInfo<NestingCase>& test) {
      return test.param.name;
    });

// ---- Tags ------------------------------------------------------------------

TEST(AccountingAllocatorTest, UntaggedBytesAreOther) {
  AccountingAllocator allocator;
  void* const block = allocator.Allocate(10);
  EXPECT_EQ(Of(allocator.Stats(), Category::kOther).current, 10);
  allocator.Free(block);
}

TEST(AccountingAllocatorTest, FreedUnderTheTagItWasAllocatedWith) {
  AccountingAllocator allocator;
  void* block = nullptr;
  {
    const ScopedTag tag(MakeTag(Category::kActivation, 2));
    block = allocator.Allocate(64);
  }
  const ScopedTag tag(MakeTag(Category::kParameter, 5));
  allocator.Free(block);
  const AllocatorStats stats = allocator.Stats();
  EXPECT_EQ(Of(stats, Category::kActivation).current, 0);
  EXPECT_EQ(Of(stats, Category::kActivation).freed, 64);
  EXPECT_EQ(Of(stats, Category::kParameter).freed, 0);
}

TEST(AccountingAllocatorTest, FreeOnAnotherThreadKeepsTheTag) {
  AccountingAllocator allocator;
  void* block = nullptr;
  {
    const ScopedTag tag(MakeTag(Category::kWireSend));
    block = allocator.Allocate(64);
  }
  std::thread([&] { allocator.Free(block); }).join();
  EXPECT_EQ(Of(allocator.Stats(), Category::kWireSend).current, 0);
  EXPECT_EQ(Of(allocator.Stats(), Category::kOther).freed, 0);
}

TEST(AccountingAllocatorTest, NestedScopesTagWhatIsAllocatedInThem) {
  AccountingAllocator allocator;
  const ScopedTag outer(MakeTag(Category::kOptimizer));
  void* const before = allocator.Allocate(1);
  void* inside = nullptr;
  {
    const ScopedTag inner(MakeTag(Category::kWorkspace));
    inside = allocator.Allocate(2);
  }
  void* const after = allocator.Allocate(4);
  EXPECT_EQ(Of(allocator.Stats(), Category::kOptimizer).current, 5);
  EXPECT_EQ(Of(allocator.Stats(), Category::kWorkspace).current, 2);
  for (void* block : {before, inside, after}) allocator.Free(block);
}

TEST(AccountingAllocatorTest, ActivationBytesAreCountedByStage) {
  AccountingAllocator allocator;
  std::vector<void*> blocks;
  for (int stage : {0, 3, 3, -1}) {
    const ScopedTag tag(MakeTag(Category::kActivation, stage));
    blocks.push_back(allocator.Allocate(100));
  }
  {
    const ScopedTag tag(MakeTag(Category::kGradient, 0));
    blocks.push_back(allocator.Allocate(1000));
  }
  const std::map<StageIndex, int64_t> by_stage =
      allocator.Stats().stage_activation_bytes;
  const std::map<StageIndex, int64_t> expected = {{StageIndex(0), 100},
                                                  {StageIndex(3), 200}};
  EXPECT_EQ(by_stage, expected);
  for (void* block : blocks) allocator.Free(block);
  for (const auto& [stage, bytes] : allocator.Stats().stage_activation_bytes) {
    EXPECT_EQ(bytes, 0) << stage;
  }
}

// ---- Figures ---------------------------------------------------------------

TEST(AccountingAllocatorTest, ActiveBytesAreWholeBlocks) {
  AccountingAllocator allocator;
  void* const block = allocator.Allocate(65);
  EXPECT_EQ(allocator.Stats().allocated_bytes.current, 65);
  EXPECT_EQ(allocator.Stats().active_bytes.current, 64 + 128);
  EXPECT_EQ(allocator.Stats().reserved_bytes.current, 64 + 128);
  allocator.Free(block);
}

TEST(AccountingAllocatorTest, ResetPeaksSetsEveryPeakToItsCurrentValue) {
  AccountingAllocator allocator;
  const ScopedTag tag(MakeTag(Category::kGradient));
  void* const kept = allocator.Allocate(128);
  allocator.Free(allocator.Allocate(1024));
  EXPECT_EQ(Of(allocator.Stats(), Category::kGradient).peak, 1152);
  allocator.ResetPeaks();
  const AllocatorStats stats = allocator.Stats();
  EXPECT_EQ(stats.allocated_bytes.peak, 128);
  EXPECT_EQ(stats.active_bytes.peak, 192);
  EXPECT_EQ(stats.reserved_bytes.peak, 192);
  EXPECT_EQ(Of(stats, Category::kGradient).peak, 128);
  EXPECT_EQ(stats.allocated_bytes.freed, 1024);
  allocator.Free(kept);
}

TEST(AccountingAllocatorTest, ChargesCountAsAllocated) {
  AccountingAllocator allocator;
  allocator.Charge(MakeTag(Category::kWireReceive), 5000);
  AllocatorStats stats = allocator.Stats();
  EXPECT_EQ(stats.allocated_bytes.current, 5000);
  EXPECT_EQ(stats.active_bytes.current, 5000);
  EXPECT_EQ(stats.reserved_bytes.current, 5000);
  EXPECT_EQ(Of(stats, Category::kWireReceive).current, 5000);
  EXPECT_EQ(SumOfCategories(stats), 5000);
  allocator.Discharge(MakeTag(Category::kWireReceive), 5000);
  stats = allocator.Stats();
  EXPECT_EQ(stats.allocated_bytes.current, 0);
  EXPECT_EQ(Of(stats, Category::kWireReceive).current, 0);
  EXPECT_EQ(stats.allocated_bytes.peak, 5000);
}

// ---- Refusals --------------------------------------------------------------

TEST(AccountingAllocatorTest, LimitRefusesWhatWouldPassItAndAccountsNothing) {
  AccountingAllocator::Options options;
  options.limit_bytes = 1000;
  AccountingAllocator allocator(options);
  void* const block = allocator.Allocate(600);
  EXPECT_EQ(allocator.Allocate(401), nullptr);
  EXPECT_EQ(allocator.Stats().allocated_bytes.allocated, 600);
  EXPECT_EQ(allocator.Stats().allocated_bytes.peak, 600);
  void* const rest = allocator.Allocate(400);
  EXPECT_NE(rest, nullptr);
  allocator.Free(block);
  void* const again = allocator.Allocate(600);
  EXPECT_NE(again, nullptr);
  allocator.Free(rest);
  allocator.Free(again);
}

TEST(AccountingAllocatorTest, LimitSeesWhatOthersAllocatedMeanwhile) {
  BusySource source;
  AccountingAllocator::Options options;
  options.limit_bytes = 1000;
  AccountingAllocator allocator(options, &source);
  void* others = nullptr;
  source.meanwhile = [&] { others = allocator.Allocate(600); };
  EXPECT_EQ(allocator.Allocate(600), nullptr);
  EXPECT_NE(others, nullptr);
  EXPECT_EQ(allocator.Stats().allocated_bytes.peak, 600);
  allocator.Free(others);
}

TEST(AccountingAllocatorTest, SystemIsNotAskedForWhatTheLimitRefuses) {
  BusySource source;
  AccountingAllocator::Options options;
  options.limit_bytes = 1000;
  AccountingAllocator allocator(options, &source);
  EXPECT_EQ(allocator.Allocate(1001), nullptr);
  EXPECT_EQ(source.takes, 0);
}

TEST(AccountingAllocatorTest, ChargesCountTowardsTheLimitButAreNotRefused) {
  AccountingAllocator::Options options;
  options.limit_bytes = 1000;
  AccountingAllocator allocator(options);
  allocator.Charge(MakeTag(Category::kWireReceive), 1200);
  EXPECT_EQ(allocator.Stats().allocated_bytes.current, 1200);
  EXPECT_EQ(allocator.Allocate(1), nullptr);
}

TEST(AccountingAllocatorTest, NothingIsAccountedWhenTheSystemRefuses) {
  EmptySource source;
  AccountingAllocator allocator({}, &source);
  EXPECT_EQ(allocator.Allocate(100), nullptr);
  EXPECT_EQ(allocator.Stats().allocated_bytes.allocated, 0);
}

TEST(AccountingAllocatorTest, AbsurdSizesAreRefused) {
  AccountingAllocator allocator;
  EXPECT_EQ(allocator.Allocate(~size_t{0}), nullptr);
  EXPECT_EQ(allocator.Allocate(~size_t{0} / 2), nullptr);
  EXPECT_EQ(allocator.Allocate(size_t{1} << 61), nullptr);
  EXPECT_EQ(allocator.Stats().allocated_bytes.allocated, 0);
}

// ---- Poison ----------------------------------------------------------------

TEST(AccountingAllocatorTest, LateReaderOfAFreedBlockSeesPoison) {
  KeepingSource source;
  AccountingAllocator::Options options;
  options.poison_freed = true;
  AccountingAllocator allocator(options, &source);
  auto* const numbers =
      static_cast<float*>(allocator.Allocate(8 * sizeof(float)));
  std::fill(numbers, numbers + 8, 1.5f);
  allocator.Free(numbers);
  for (int i = 0; i < 8; ++i) {
    float late;
    std::memcpy(&late, numbers + i, sizeof(late));
    EXPECT_TRUE(std::isnan(late)) << i;
  }
}

TEST(AccountingAllocatorTest, WithoutPoisonFreedBlocksAreLeftAlone) {
  KeepingSource source;
  AccountingAllocator allocator({}, &source);
  auto* const bytes = static_cast<unsigned char*>(allocator.Allocate(8));
  std::memset(bytes, 7, 8);
  allocator.Free(bytes);
  EXPECT_EQ(bytes[0], 7);
}

TEST(AccountingAllocatorTest, ConfigureTurnsPoisonOn) {
  KeepingSource source;
  AccountingAllocator allocator({}, &source);
  AccountingAllocator::Options options;
  options.poison_freed = true;
  allocator.Configure(options);
  auto* const bytes = static_cast<unsigned char*>(allocator.Allocate(8));
  std::memset(bytes, 7, 8);
  allocator.Free(bytes);
  EXPECT_EQ(bytes[0], 0xFF);
}

// ---- Watching --------------------------------------------------------------

TEST(AccountingAllocatorTest, WatchesOfOneBlockAreOneObject) {
  AccountingAllocator allocator;
  void* const block = allocator.Allocate(1);
  EXPECT_EQ(allocator.Watch(block), allocator.Watch(block));
  allocator.Free(block);
}

TEST(AccountingAllocatorTest, WatchOutlivesTheAllocator) {
  std::shared_ptr<const BlockWatch> watch;
  {
    AccountingAllocator allocator;
    void* const block = allocator.Allocate(7);
    watch = allocator.Watch(block);
    allocator.Free(block);
  }
  EXPECT_TRUE(watch->freed());
  EXPECT_EQ(watch->bytes(), 7);
}

TEST(AccountingAllocatorTest, NewBlockAtTheSameAddressIsAnotherOne) {
  AccountingAllocator allocator;
  void* const block = allocator.Allocate(100);
  const auto old = allocator.Watch(block);
  allocator.Free(block);
  void* const next = allocator.Allocate(100);
  EXPECT_TRUE(old->freed());
  EXPECT_FALSE(allocator.Watch(next)->freed());
  allocator.Free(next);
}

TEST(AccountingAllocatorTest, WatchOfNullIsNull) {
  AccountingAllocator allocator;
  EXPECT_EQ(allocator.Watch(nullptr), nullptr);
}

// ---- Corruption ------------------------------------------------------------

TEST(AccountingAllocatorDeathTest, DoubleFreeAborts) {
  KeepingSource source;  // a second look at the block is defined
  AccountingAllocator allocator({}, &source);
  void* const block = allocator.Allocate(10);
  allocator.Free(block);
  EXPECT_DEATH(allocator.Free(block), "freed twice");
}

TEST(AccountingAllocatorDeathTest, DoubleFreeOfAPoisonedBlockAborts) {
  KeepingSource source;
  AccountingAllocator::Options options;
  options.poison_freed = true;
  AccountingAllocator allocator(options, &source);
  void* const block = allocator.Allocate(10);
  allocator.Free(block);
  EXPECT_DEATH(allocator.Free(block), "freed twice");
}

TEST(AccountingAllocatorDeathTest, WatchOfAFreedBlockAborts) {
  KeepingSource source;
  AccountingAllocator allocator({}, &source);
  void* const block = allocator.Allocate(10);
  allocator.Free(block);
  EXPECT_DEATH(allocator.Watch(block), "freed twice");
}

TEST(AccountingAllocatorDeathTest, ForeignPointerAborts) {
  AccountingAllocator allocator;
  alignas(64) unsigned char foreign[256] = {};
  EXPECT_DEATH(allocator.Free(foreign + 64), "not one of this allocator");
  EXPECT_DEATH(allocator.Free(foreign + 65), "not one of this allocator");
}

TEST(AccountingAllocatorDeathTest, AnotherAllocatorsBlockAborts) {
  AccountingAllocator allocator;
  AccountingAllocator other;
  void* const block = other.Allocate(10);
  EXPECT_DEATH(allocator.Free(block), "not one of this allocator");
  other.Free(block);
}

}  // namespace
}  // namespace stagecoach::memory
