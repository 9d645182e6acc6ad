// What every block source does; a new one joins with one line at the end.
#include "memory/block_source.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace stagecoach::memory {
namespace {

struct SourceCase {
  const char* name;
  std::function<std::unique_ptr<BlockSource>()> make;
};

// The system's source is not owned by anybody.
class BorrowedSystem final : public BlockSource {
 public:
  void* Take(size_t bytes) override { return SystemBlockSource()->Take(bytes); }
  void Give(void* block, size_t bytes) override {
    SystemBlockSource()->Give(block, bytes);
  }
};

class BlockSourceConformance : public ::testing::TestWithParam<SourceCase> {
 protected:
  const std::unique_ptr<BlockSource> source_ = GetParam().make();
};

TEST_P(BlockSourceConformance, BlocksAreAligned) {
  for (size_t bytes = kBlockAlignment; bytes <= (1 << 20); bytes *= 4) {
    void* const block = source_->Take(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kBlockAlignment, 0u);
    source_->Give(block, bytes);
  }
}

TEST_P(BlockSourceConformance, LiveBlocksDoNotOverlap) {
  constexpr size_t kBytes = 4 * kBlockAlignment;
  std::vector<unsigned char*> blocks;
  for (int i = 0; i < 50; ++i) {
    blocks.push_back(static_cast<unsigned char*>(source_->Take(kBytes)));
    std::memset(blocks.back(), i, kBytes);
  }
  for (int i = 0; i < 50; ++i) {
    for (size_t j = 0; j < kBytes; ++j) ASSERT_EQ(blocks[i][j], i);
    source_->Give(blocks[i], kBytes);
  }
}

TEST_P(BlockSourceConformance, RefusesMoreThanTheAddressSpace) {
  EXPECT_EQ(source_->Take(size_t{1} << 60), nullptr);
}

INSTANTIATE_TEST_SUITE_P(
    Sources, BlockSourceConformance,
    ::testing::Values(
        SourceCase{"System", [] { return std::make_unique<BorrowedSystem>(); }},
        SourceCase{"Poisoning",
                   [] {
                     return std::make_unique<PoisoningSource>(
                         SystemBlockSource());
                   }}),
    [](const ::testing::TestParamInfo<SourceCase>& test) {
      return test.param.name;
    });

// Looks at a block at the moment at which it comes back.
class InspectingSource final : public BlockSource {
 public:
  void* Take(size_t bytes) override { return SystemBlockSource()->Take(bytes); }
  void Give(void* block, size_t bytes) override {
    const auto* const begin = static_cast<unsigned char*>(block);
    returned.assign(begin, begin + bytes);
    SystemBlockSource()->Give(block, bytes);
  }
  std::vector<unsigned char> returned;
};

TEST(PoisoningSourceTest, FillsTheWholeBlockBeforeItGoes) {
  InspectingSource upstream;
  PoisoningSource source(&upstream);
  void* const block = source.Take(2 * kBlockAlignment);
  std::memset(block, 7, 2 * kBlockAlignment);
  source.Give(block, 2 * kBlockAlignment);
  EXPECT_EQ(upstream.returned,
            std::vector<unsigned char>(2 * kBlockAlignment, 0xFF));
}

}  // namespace
}  // namespace stagecoach::memory
