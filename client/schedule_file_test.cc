#include "client/schedule_file.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"

namespace stagecoach::client {
namespace {

TEST(ParseCostsTest, ThreeNumbers) {
  const schedule::StageCosts costs = *ParseCosts("1,2.5,0");
  EXPECT_EQ(costs.forward, 1);
  EXPECT_EQ(costs.backward_input, 2.5);
  EXPECT_EQ(costs.backward_weight, 0);
}

TEST(ParseCostsTest, NothingMeansAllEqual) {
  const schedule::StageCosts costs = *ParseCosts("");
  EXPECT_EQ(costs.forward, costs.backward_input);
  EXPECT_EQ(costs.forward, costs.backward_weight);
}

TEST(ParseCostsTest, RefusesEverythingElse) {
  for (const char* text : {"1", "1,2", "1,,2", "1,2,3,", "a,b,c", "nan,1,1"}) {
    EXPECT_EQ(ParseCosts(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(ComputeOnlyTest, IsWhatWasLowered) {
  schedule::GenerateOptions shape;
  shape.workers = 3;
  shape.stages_per_worker = 2;
  shape.microbatches = 4;
  const schedule::Schedule compute = *schedule::Generate("zbv", shape);
  schedule::LoweringOptions lowering;
  lowering.tied_embeddings = true;
  EXPECT_EQ(InFormat(ComputeOnly(*schedule::Lower(compute, lowering)), "text"),
            InFormat(compute, "text"));
}

TEST(VerifyScheduleTest, AMissingTiedReductionIsRefused) {
  schedule::GenerateOptions shape;
  shape.workers = 2;
  shape.microbatches = 2;
  schedule::LoweringOptions lowering;
  lowering.tied_embeddings = true;
  schedule::Schedule schedule =
      *schedule::Lower(*schedule::Generate("1f1b", shape), lowering);
  EXPECT_TRUE(VerifySchedule(schedule).ok);
  schedule.actions[1].pop_back();
  EXPECT_FALSE(VerifySchedule(schedule).ok);
}

TEST(VerifyScheduleTest, AForwardOnlyKindNeedsNoBackward) {
  schedule::GenerateOptions shape;
  shape.workers = 2;
  shape.microbatches = 2;
  schedule::Schedule schedule = *schedule::Generate("forward-only", shape);
  EXPECT_TRUE(VerifySchedule(schedule).ok);
  // Whoever calls the same lists a training schedule is refused.
  schedule.kind = "1f1b";
  EXPECT_FALSE(VerifySchedule(schedule).ok);
}

}  // namespace
}  // namespace stagecoach::client
