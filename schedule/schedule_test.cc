#include "schedule/schedule.h"

#include "gtest/gtest.h"
#include "schedule/testing/lists.h"

namespace stagecoach::schedule {
namespace {

using testing::MakeSchedule;
using testing::ParseList;

std::string EdgeText(const Schedule& schedule, const char* action) {
  return ToString(schedule.EdgeOf(ParseList(action).front()));
}

TEST(ScheduleTest, EdgesRunFromTheSenderToTheReceiver) {
  // Stages 0 and 2 on worker 0, 1 and 3 on worker 1.
  const Schedule schedule = MakeSchedule(1, 2, {"", ""});
  EXPECT_EQ(EdgeText(schedule, "0SEND_F0"), "0->1 activation");
  EXPECT_EQ(EdgeText(schedule, "1AWAIT_RELEASE_F0"), "1->0 activation");
  EXPECT_EQ(EdgeText(schedule, "2RECV_F0"), "1->0 activation");
  EXPECT_EQ(EdgeText(schedule, "3SEND_B0"), "1->0 gradient");
  EXPECT_EQ(EdgeText(schedule, "1RECV_B0"), "0->1 gradient");
}

TEST(ScheduleTest, HandOffsOnOneWorkerAndTheEndsSendNothing) {
  Schedule schedule = MakeSchedule(1, 2, {"", ""});
  // The turn of a V-shaped placement: stages 1 and 2 on one worker.
  schedule.placement = {WorkerIndex(0), WorkerIndex(1), WorkerIndex(1),
                        WorkerIndex(0)};
  EXPECT_TRUE(schedule.SendsActivation(StageIndex(0)));
  EXPECT_FALSE(schedule.SendsActivation(StageIndex(1)));
  EXPECT_TRUE(schedule.SendsActivation(StageIndex(2)));
  EXPECT_FALSE(schedule.SendsActivation(StageIndex(3)));
  EXPECT_FALSE(schedule.SendsGradient(StageIndex(0)));
  EXPECT_FALSE(schedule.SendsGradient(StageIndex(2)));
  EXPECT_TRUE(schedule.SendsGradient(StageIndex(3)));
}

TEST(ScheduleTest, StagesOfAWorkerAscend) {
  const Schedule schedule = MakeSchedule(1, 3, {"", ""});
  EXPECT_EQ(
      schedule.StagesOf(WorkerIndex(1)),
      (std::vector<StageIndex>{StageIndex(1), StageIndex(3), StageIndex(5)}));
}

}  // namespace
}  // namespace stagecoach::schedule
