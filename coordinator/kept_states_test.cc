#include "coordinator/kept_states.h"

#include <utility>

#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

v1::KeptStates States(
    const std::string& job_id,
    const std::vector<std::pair<int32_t, int64_t>>& stages_and_steps) {
  v1::KeptStates states;
  states.set_job_id(job_id);
  for (const auto& [stage, step] : stages_and_steps) {
    v1::KeptState* state = states.add_states();
    state->set_stage(stage);
    state->set_step(step);
  }
  return states;
}

// w0 has stage 0, w1 was lost, w2 has stage 2; each keeps its neighbour's, too.
TEST(KeptStatesTest, TheNewestThatEveryStageCanSupplyIsTaken) {
  KeptByWorker kept;
  kept["w0"] = States("job-1", {{0, 4}, {0, 5}, {2, 4}, {2, 5}});
  kept["w2"] = States("job-1", {{2, 4}, {2, 5}, {1, 4}});
  const auto choice = ChooseKept(kept, "job-1", 3, 0, 5);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->step, 4);
  EXPECT_EQ(choice->keepers, (std::vector<std::string>{"w0", "w2", "w0"}));
}

TEST(KeptStatesTest, WithAStageMissingThereIsNone) {
  KeptByWorker kept;
  kept["w0"] = States("job-1", {{0, 4}, {0, 5}});
  kept["w2"] = States("job-1", {{2, 4}, {1, 5}});
  EXPECT_FALSE(ChooseKept(kept, "job-1", 3, 0, 5).has_value());
  EXPECT_FALSE(ChooseKept({}, "job-1", 3, 0, 5).has_value());
  EXPECT_FALSE(ChooseKept(kept, "job-1", 0, 0, 5).has_value());
}

TEST(KeptStatesTest, OnlyWhatTheJobHasCommittedCounts) {
  KeptByWorker kept;
  kept["w0"] = States("job-1", {{0, 3}, {0, 6}, {1, 3}, {1, 6}});
  kept["w1"] = States("job-2", {{0, 4}, {1, 4}});
  EXPECT_EQ(ChooseKept(kept, "job-1", 2, 0, 5)->step, 3);
  EXPECT_EQ(ChooseKept(kept, "job-1", 2, 0, 6)->step, 6);
  EXPECT_FALSE(ChooseKept(kept, "job-1", 2, 4, 5).has_value());
}

TEST(KeptStatesTest, StagesThatTheJobHasNotAreIgnored) {
  KeptByWorker kept;
  kept["w0"] = States("job-1", {{-1, 3}, {2, 3}, {0, 3}, {0, -1}});
  EXPECT_FALSE(ChooseKept(kept, "job-1", 2, 0, 5).has_value());
}

}  // namespace
}  // namespace stagecoach::coordinator
