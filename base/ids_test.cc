#include "base/ids.h"

#include <sstream>
#include <type_traits>

#include "absl/container/flat_hash_set.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

static_assert(!std::is_convertible_v<StageIndex, MicrobatchIndex>);
static_assert(!std::is_convertible_v<int32_t, StageIndex>);
static_assert(!std::is_convertible_v<StageIndex, int32_t>);

TEST(StrongIntTest, ComparesByValue) {
  EXPECT_EQ(StageIndex(3), StageIndex(3));
  EXPECT_NE(StageIndex(3), StageIndex(4));
  EXPECT_LT(StageIndex(3), StageIndex(4));
  EXPECT_GE(StageIndex(4), StageIndex(4));
}

TEST(StrongIntTest, CountsUpAndDown) {
  StageIndex stage(3);
  EXPECT_EQ(stage.Next(), StageIndex(4));
  EXPECT_EQ(stage.Previous(), StageIndex(2));
  EXPECT_EQ(++stage, StageIndex(4));
  EXPECT_EQ(stage.index(), size_t{4});
}

TEST(StrongIntTest, IsAKeyOfHashSets) {
  const absl::flat_hash_set<Epoch> epochs = {Epoch(1), Epoch(2), Epoch(1)};
  EXPECT_EQ(epochs.size(), size_t{2});
}

TEST(StrongIntTest, PrintsAsItsNumber) {
  std::ostringstream out;
  out << StageIndex(7) << " " << Incarnation(~uint64_t{0});
  EXPECT_EQ(out.str(), "7 18446744073709551615");
}

}  // namespace
}  // namespace stagecoach
