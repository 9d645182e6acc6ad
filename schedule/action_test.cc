#include "schedule/action.h"

#include <string>

#include "gtest/gtest.h"

namespace stagecoach::schedule {
namespace {

Action Make(ActionKind kind, int stage, int microbatch) {
  return Action{kind, StageIndex(stage), MicrobatchIndex(microbatch)};
}

TEST(ActionTest, IsWrittenAsStageKindMicrobatch) {
  EXPECT_EQ(ToString(Make(ActionKind::kForward, 2, 0)), "2F0");
  EXPECT_EQ(ToString(Make(ActionKind::kSendActivation, 1, 3)), "1SEND_F3");
  EXPECT_EQ(ToString(Make(ActionKind::kAwaitGradientRelease, 10, 12)),
            "10AWAIT_RELEASE_B12");
  EXPECT_EQ(ToString(Make(ActionKind::kReduceTied, 0, 0)), "0REDUCE_TIED0");
}

TEST(ActionTest, EveryKindReadsBackWhatItWrote) {
  for (int kind = 0; kind <= static_cast<int>(ActionKind::kReduceTied);
       ++kind) {
    for (const int index : {0, 1, 9, 10, 65535, 2147483647}) {
      const Action action = Make(static_cast<ActionKind>(kind), index, index);
      Action read;
      ASSERT_TRUE(ParseAction(ToString(action), &read)) << action;
      EXPECT_EQ(read, action);
    }
  }
}

TEST(ActionTest, RefusesWhatToStringNeverWrites) {
  for (const char* text : {"",
                           "F",
                           "0F",
                           "F0",
                           "0f0",
                           "0X0",
                           "0F0 ",
                           " 0F0",
                           "00F0",
                           "0F00",
                           "-1F0",
                           "0F-1",
                           "+0F0",
                           "0F2147483648",
                           "99999999999F0",
                           "0SEND0",
                           "0SEND_F_0",
                           "0F0F0",
                           "0RECV_F",
                           "0FF0",
                           "0AWAIT_RELEASE0"}) {
    Action action;
    EXPECT_FALSE(ParseAction(text, &action)) << '"' << text << '"';
  }
}

TEST(ActionTest, DirectionFollowsTheNameOfTheAction) {
  EXPECT_EQ(DirectionOf(ActionKind::kReceiveActivation),
            Direction::kActivation);
  EXPECT_EQ(DirectionOf(ActionKind::kAwaitActivationRelease),
            Direction::kActivation);
  EXPECT_EQ(DirectionOf(ActionKind::kSendGradient), Direction::kGradient);
  EXPECT_EQ(DirectionOf(ActionKind::kAwaitGradientRelease),
            Direction::kGradient);
}

}  // namespace
}  // namespace stagecoach::schedule
