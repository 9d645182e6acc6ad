#include "client/output/text.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

TEST(TextTest, SecondsGetCoarserAsTheyGrow) {
  EXPECT_EQ(FormatSeconds(0.254), "0.25 s");
  EXPECT_EQ(FormatSeconds(12.34), "12.3 s");
  EXPECT_EQ(FormatSeconds(59.96), "1 min 00 s");
  EXPECT_EQ(FormatSeconds(125), "2 min 05 s");
  EXPECT_EQ(FormatSeconds(3780), "1 h 03 min");
  EXPECT_EQ(FormatSeconds(-1), "-");
  EXPECT_EQ(FormatSeconds(std::numeric_limits<double>::infinity()), "-");
}

TEST(TextTest, ShortNumbersNeverRoundUpIntoAFourthDigit) {
  EXPECT_EQ(FormatShort(812.4), "812");
  EXPECT_EQ(FormatShort(999.7), "1.0k");
  EXPECT_EQ(FormatShort(41234), "41.2k");
  EXPECT_EQ(FormatShort(1350000), "1.35M");
  EXPECT_EQ(FormatShort(std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(TextTest, CountsHaveSeparators) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(-1234567), "-1,234,567");
}

TEST(TextTest, LayersAreCountedAsPeopleDo) {
  EXPECT_EQ(FormatLayers(0, 3), "0-2");
  EXPECT_EQ(FormatLayers(3, 4), "3");
  EXPECT_EQ(FormatLayers(4, 4), "-");
}

TEST(TextTest, OneOfAKindHasNoPlural) {
  EXPECT_EQ(Plural(1, "step"), "1 step");
  EXPECT_EQ(Plural(0, "step"), "0 steps");
  EXPECT_EQ(Plural(1200, "step"), "1,200 steps");
}

TEST(TextTest, NumbersAreJoined) {
  EXPECT_EQ(JoinNumbers(std::vector<int>{0, 4}), "0, 4");
  EXPECT_EQ(JoinNumbers(std::vector<int>{}), "");
}

}  // namespace
}  // namespace stagecoach::client
