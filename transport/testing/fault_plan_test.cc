#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/testing/faulty_endpoint.h"

namespace stagecoach::transport {
namespace {

using ::testing::HasSubstr;

TEST(FaultPlanTest, ParsesEveryFault) {
  const FaultPlan plan =
      FaultPlan::Parse(
          "seed=18446744073709551615, delay_receive_polls=1,delay_ack_polls=2,"
          "duplicate_ack_every=3,reorder_acks=true,stale_ack_every=4,"
          "unknown_ack_every=5,lose_ack_at=6,drop_link_at_send=7")
          .value();
  EXPECT_EQ(plan.seed, UINT64_MAX);
  EXPECT_EQ(plan.delay_receive_polls, 1);
  EXPECT_EQ(plan.delay_ack_polls, 2);
  EXPECT_EQ(plan.duplicate_ack_every, 3);
  EXPECT_TRUE(plan.reorder_acks);
  EXPECT_EQ(plan.stale_ack_every, 4);
  EXPECT_EQ(plan.unknown_ack_every, 5);
  EXPECT_EQ(plan.lose_ack_at, 6);
  EXPECT_EQ(plan.drop_link_at_send, 7);
}

TEST(FaultPlanTest, NothingIsNoFault) {
  const FaultPlan plan = FaultPlan::Parse("").value();
  EXPECT_EQ(plan.delay_receive_polls, 0);
  EXPECT_FALSE(plan.reorder_acks);
  EXPECT_EQ(plan.drop_link_at_send, 0);
}

TEST(FaultPlanTest, AnUnknownFaultIsRefusedWithASuggestion) {
  const absl::Status status = FaultPlan::Parse("lose_ack=3").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"lose_ack\""));
  EXPECT_THAT(std::string(status.message()), HasSubstr("lose_ack_at"));
}

TEST(FaultPlanTest, RefusesWhatIsNoCount) {
  for (const char* text :
       {"lose_ack_at", "lose_ack_at=", "lose_ack_at=-1", "lose_ack_at=x",
        "seed=-1", "reorder_acks=perhaps", "=3", "lose_ack_at=1=2"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(FaultPlan::Parse(text).status()))
        << text;
  }
}

}  // namespace
}  // namespace stagecoach::transport
