#include "base/suggest.h"

#include "gtest/gtest.h"

namespace stagecoach {
namespace {

const std::vector<std::string>& Kinds() {
  static const auto* const kinds =
      new std::vector<std::string>{"gpipe", "1f1b", "interleaved"};
  return *kinds;
}

TEST(DidYouMeanTest, NamesTheClosestCandidate) {
  EXPECT_EQ(DidYouMean("1f1", Kinds()), "; did you mean \"1f1b\"?");
  EXPECT_EQ(DidYouMean("1F1B", Kinds()), "; did you mean \"1f1b\"?");
  EXPECT_EQ(DidYouMean("gippe", Kinds()), "; did you mean \"gpipe\"?");
  EXPECT_EQ(DidYouMean("interleave", Kinds()),
            "; did you mean \"interleaved\"?");
}

TEST(DidYouMeanTest, SaysNothingWhenNothingIsClose) {
  EXPECT_EQ(DidYouMean("zbv", Kinds()), "");
  EXPECT_EQ(DidYouMean("", Kinds()), "");
  EXPECT_EQ(DidYouMean("gpipe", {}), "");
  EXPECT_EQ(DidYouMean(std::string(100000, 'x'), Kinds()), "");
}

TEST(DidYouMeanTest, ASwapOfNeighboursIsOneSlip) {
  EXPECT_EQ(DidYouMean("akc", {"ack"}), "; did you mean \"ack\"?");
}

}  // namespace
}  // namespace stagecoach
