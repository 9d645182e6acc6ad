#include "schedule/formats/diff.h"

#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/testing/lists.h"

namespace stagecoach::schedule {
namespace {

using testing::FindPlan;
using testing::MakeSchedule;

TEST(DiffTest, EqualSchedulesHaveNoDifference) {
  const Schedule schedule =
      *Lower(MakeSchedule(2, 1, {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"}), {});
  EXPECT_TRUE(Diff(schedule, schedule).empty());
  EXPECT_EQ(ToText(Diff(schedule, schedule)), "");
}

TEST(DiffTest, NamesTheFirstDifferentActionOfEachWorker) {
  EXPECT_EQ(
      ToText(Diff(
          MakeSchedule(2, 1, {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1", "2F0 2B0"}),
          MakeSchedule(2, 1,
                       {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1", "2F0 2B0 2F1"}))),
      "w1 action 1: 1B0 and 1F1\n"
      "w2 action 2: nothing more and 2F1\n");
}

TEST(DiffTest, NamesWhatDiffersBesideTheLists) {
  const Schedule compute = MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"});
  Schedule left = *Lower(compute, {});
  Schedule right = left;
  right.kind = "1f1b";
  right.microbatches = 2;
  FindPlan(&right, 0, 1, Direction::kActivation)->receive_depth = 7;
  right.edges.pop_back();
  EXPECT_EQ(ToText(Diff(left, right)),
            "kind: custom and 1f1b\n"
            "microbatches: 1 and 2\n"
            "edge 0->1 activation receive_depth: 2 and 7\n"
            "edge 1->0 gradient: only on the left\n");
}

TEST(DiffTest, MoreWorkersOnOneSideAreListed) {
  EXPECT_EQ(ToText(Diff(MakeSchedule(1, 1, {"0F0 0B0"}),
                        MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"}))),
            "workers: 1 and 2\n"
            "w1 action 0: nothing more and 1F0\n");
}

}  // namespace
}  // namespace stagecoach::schedule
