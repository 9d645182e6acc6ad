#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/formats/formats.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/testing/lists.h"

namespace stagecoach::schedule {
namespace {

using ::testing::HasSubstr;
using testing::MakeSchedule;

TEST(TimelineTest, ShowsEachActionWhereItRunsAndBlanksForBubbles) {
  EXPECT_THAT(
      DrawTimeline(MakeSchedule(2, 1, {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"})),
      HasSubstr("w0 |F0 F1       B0 B0    B1 B1\n"
                "w1 |   F0 B0 B0 F1 B1 B1\n"));
}

TEST(TimelineTest, NamesTheStageWhereAWorkerHasSeveral) {
  EXPECT_THAT(DrawTimeline(MakeSchedule(1, 2, {"0F0 1F0 1B0 0B0"})),
              HasSubstr("w0 |F0a F0b B0b B0b B0a B0a\n"));
}

TEST(TimelineTest, SplitBackwardsShowBothHalves) {
  EXPECT_THAT(DrawTimeline(MakeSchedule(1, 1, {"0F0 0I0 0W0"})),
              HasSubstr("w0 |F0 I0 W0\n"));
}

TEST(TimelineTest, LoweredListsDrawAsTheirComputeActions) {
  const Schedule compute = MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"});
  EXPECT_EQ(DrawTimeline(*Lower(compute, {})), DrawTimeline(compute));
}

TEST(TimelineTest, IsCutToTheTerminal) {
  GenerateOptions options;
  options.workers = 2;
  options.microbatches = 20;
  const std::string timeline = DrawTimeline(*Generate("gpipe", options), 24);
  // Five cells of "F19 " after "w0 |".
  EXPECT_THAT(timeline, HasSubstr("w0 |F0  F1  F2  F3  F4\n"));
  EXPECT_THAT(timeline, HasSubstr("(the first 5 of 63 units of time)"));
}

TEST(TimelineTest, AListThatDeadlocksSaysSo) {
  EXPECT_THAT(DrawTimeline(MakeSchedule(1, 1, {"0B0 0F0"})),
              HasSubstr("no timeline: the lists deadlock"));
}

}  // namespace
}  // namespace stagecoach::schedule
