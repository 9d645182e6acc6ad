#include "stage_worker/check_assignment.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "job/plan.h"
#include "stage_worker/testing/placement_rig.h"

namespace stagecoach::worker {
namespace {

using ::testing::HasSubstr;

// What the coordinator would send to worker 1 of 2.
PlacementOptions Good() {
  PlacementOptions options;
  options.spec = RigSpec(2, "1f1b", 3);
  const job::JobPlan plan = job::PlanJob(options.spec, nullptr).value();
  options.schedule = plan.schedule;
  options.worker = WorkerIndex(1);
  options.worker_names = {"w0", "w1"};
  StageAssignment stage;
  stage.stage = StageIndex(1);
  stage.layers = plan.stages[1];
  stage.last = true;
  options.stages = {stage};
  return options;
}

std::string Refusal(const std::function<void(PlacementOptions*)>& spoil) {
  PlacementOptions options = Good();
  spoil(&options);
  const absl::Status status = CheckAssignment(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

using P = PlacementOptions*;

TEST(CheckAssignmentTest, TakesWhatFitsTogether) {
  EXPECT_EQ(CheckAssignment(Good()), absl::OkStatus());
}

TEST(CheckAssignmentTest, RefusesASpecThatNoClientMayWrite) {
  EXPECT_THAT(Refusal([](P p) { p->spec.training.microbatch_size = -1; }),
              HasSubstr("training.microbatch_size: must be from 1"));
}

TEST(CheckAssignmentTest, RefusesNumbersThatDiffer) {
  EXPECT_THAT(Refusal([](P p) { p->spec.training.microbatches = 4; }),
              HasSubstr("for microbatches = 3, not 4"));
  EXPECT_THAT(Refusal([](P p) { p->spec.pipeline.workers = 1; }),
              HasSubstr("for workers = 2, not 1"));
  EXPECT_THAT(Refusal([](P p) { p->worker_names.pop_back(); }),
              HasSubstr("for peers = 2, not 1"));
  EXPECT_THAT(Refusal([](P p) { p->worker = WorkerIndex(2); }),
              HasSubstr("this is worker 2 of 2"));
  EXPECT_THAT(Refusal([](P p) { p->worker = WorkerIndex(-1); }),
              HasSubstr("this is worker -1 of 2"));
  EXPECT_THAT(Refusal([](P p) { p->schedule.send_budget = 0; }),
              HasSubstr("no communication"));
}

TEST(CheckAssignmentTest, RefusesStagesThatAreNotPlacedHere) {
  EXPECT_THAT(Refusal([](P p) { p->stages.clear(); }),
              HasSubstr("0 stages are assigned"));
  EXPECT_THAT(Refusal([](P p) { p->stages[0].stage = StageIndex(0); }),
              HasSubstr("stage 0 is assigned"));
  EXPECT_THAT(Refusal([](P p) { p->stages[0].layers.end = 9; }),
              HasSubstr("layers 1 to 9 of 2"));
  EXPECT_THAT(Refusal([](P p) { p->stages[0].layers.end = 1; }),
              HasSubstr("layers 1 to 1 of 2"));
}

TEST(CheckAssignmentTest, RefusesAListOfSomebodyElse) {
  EXPECT_THAT(
      Refusal([](P p) { p->schedule.actions[1] = p->schedule.actions[0]; }),
      HasSubstr("is in the list of worker 1"));
  EXPECT_THAT(Refusal([](P p) {
                p->schedule.edges[0].edge.to = p->schedule.edges[0].edge.from;
              }),
              HasSubstr("from worker 0 to itself"));
}

TEST(CheckAssignmentTest, RefusesAnEvaluationThatDoesNotFit) {
  EXPECT_THAT(Refusal([](P p) {
                p->evaluation = p->schedule;
                p->spec.evaluation.microbatches = 4;
              }),
              HasSubstr("evaluation: the schedule is for microbatches = 3, not "
                        "4"));
}

}  // namespace
}  // namespace stagecoach::worker
