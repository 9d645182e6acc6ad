#include "job/memory_prediction.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "job/plan.h"
#include "schedule/generator.h"

namespace stagecoach::job {
namespace {

constexpr auto kActivation = MemoryCategory::kActivation;

CategoryBytes Bytes(int64_t bytes,
                    MemoryCategory category = MemoryCategory::kActivation) {
  CategoryBytes result;
  result.Add(category, bytes);
  return result;
}

// A stage that keeps 1000 for its backward, puts out 10, and needs 5 more for a
// moment in each action.
StageMemory Stage(StageIndex index, bool last) {
  StageMemory stage;
  stage.stage = index;
  stage.retained = Bytes(1000);
  if (!last) stage.output = Bytes(10);
  stage.forward_peak = Bytes(1000 + (last ? 0 : 10) + 5);
  stage.keeps_input = true;
  stage.backward_output = Bytes(index.value() == 0 ? 0 : 10);
  stage.backward_peak = Bytes(15);
  stage.splits = true;
  stage.backward_input_output = stage.backward_output;
  stage.backward_input_peak = Bytes(15);
  stage.kept_for_weight = Bytes(400);
  stage.keeps_gradient_for_weight = true;
  stage.backward_weight_peak = Bytes(5);
  stage.evaluation_peak = Bytes(20);
  stage.evaluation_output = stage.output;
  return stage;
}

class PredictMemoryTest : public testing::Test {
 protected:
  void Plan(const std::string& kind, int workers, int stages_per_worker,
            int microbatches, int send_budget) {
    JobSpec spec;
    spec.name = "memory";
    spec.model.layers = workers * stages_per_worker;
    spec.model.hidden = 64;
    spec.model.heads = 4;
    spec.model.tie_embeddings = false;
    spec.data.sequence_length = 32;
    spec.training.microbatches = microbatches;
    spec.pipeline.workers = workers;
    spec.pipeline.stages_per_worker = stages_per_worker;
    spec.pipeline.schedule = kind;
    spec.pipeline.send_budget = send_budget;
    auto plan = PlanJob(spec, nullptr);
    ASSERT_TRUE(plan.ok()) << kind << ": " << plan.status();
    plan_ = *plan;
    question_ = MemoryQuestion();
    question_.schedule = &plan_.schedule;
    for (WorkerIndex w(0); w.value() < workers; w = w.Next()) {
      WorkerMemoryProfile profile;
      profile.resident = Bytes(100000, MemoryCategory::kParameter);
      for (const StageIndex stage : plan_.schedule.StagesOf(w)) {
        profile.stages.push_back(Stage(stage, plan_.schedule.IsLast(stage)));
      }
      question_.profiles.push_back(profile);
    }
    question_.receive_pool_bytes.assign(static_cast<size_t>(workers), 0);
  }
  // Without what is there all the time.
  MemoryInterval Predict(int worker) {
    const auto intervals = PredictMemory(question_);
    EXPECT_TRUE(intervals.ok()) << intervals.status();
    if (!intervals.ok()) return {};
    MemoryInterval interval = (*intervals)[static_cast<size_t>(worker)];
    interval.low.total -= 100000;
    interval.high.total -= 100000;
    return interval;
  }

  JobPlan plan_;
  MemoryQuestion question_;
};

TEST_F(PredictMemoryTest, GpipeKeepsEveryMicrobatch) {
  Plan("gpipe", 2, 1, 4, 1);
  // Three graphs, and the fourth with its output and a moment's need. K = 1
  // holds one output more.
  EXPECT_EQ(Predict(0).low.total, 4000 + 15);
  EXPECT_EQ(Predict(0).high.total, 3010 + 1015);
  // The loss's stage sends gradients: four graphs, less those that are done.
  EXPECT_EQ(Predict(1).high.total, 4000 + 15);
}

// In its receiver's memory an output is never among the sender's bytes, neither
// while it is computed nor afterwards.
TEST_F(PredictMemoryTest, AtTheLowEndOutputsLieInTheirReceivers) {
  Plan("gpipe", 2, 1, 4, 1);
  question_.profiles[0].stages[0].backward_peak = Bytes(0);
  EXPECT_EQ(Predict(0).low.total, 3000 + 1005);
  EXPECT_EQ(Predict(0).low.Of(kActivation), 3000 + 1005);
  EXPECT_EQ(Predict(1).low.total, 4000 + 5) << "gradients too";
  // Between hosts each is its sender's until it is sent.
  question_.in_place = false;
  EXPECT_EQ(Predict(0).low.total, 3000 + 1015);
  EXPECT_EQ(Predict(1).low.total, 4000 + 15);
  question_.in_place = true;
  // With "never" they are kept for their backward, here.
  question_.release = ReleasePolicy::kNever;
  EXPECT_EQ(Predict(0).low.total, 3000 + 30 + 1015);
  // What goes to another stage of the same worker is no output.
  Plan("zbv", 1, 2, 3, 1);
  EXPECT_EQ(Predict(0).low.total, Predict(0).high.total);
}

TEST_F(PredictMemoryTest, TheSendBudgetWidensTheInterval) {
  for (const int budget : {1, 2, 3}) {
    Plan("gpipe", 2, 1, 8, budget);
    EXPECT_EQ(Predict(0).low.total, 8000 + 15);
    EXPECT_EQ(Predict(0).high.total, 7000 + 10 * budget + 1015);
  }
}

TEST_F(PredictMemoryTest, NeverKeepsOutputsUntilTheirBackward) {
  Plan("gpipe", 2, 1, 4, 1);
  question_.release = ReleasePolicy::kNever;
  // At the first backward: four graphs, four outputs, a moment's need.
  EXPECT_EQ(Predict(0).low.total, 4000 + 40 + 15);
  EXPECT_EQ(Predict(0).high.total, 4000 + 40 + 15);
}

TEST_F(PredictMemoryTest, OneForwardOneBackwardDoesNotGrowWithMicrobatches) {
  Plan("1f1b", 4, 1, 8, 2);
  const MemoryInterval eight = Predict(0);
  EXPECT_EQ(eight.low.total, 4000 + 15);
  Plan("1f1b", 4, 1, 64, 2);
  EXPECT_EQ(Predict(0).low.total, eight.low.total);
  EXPECT_EQ(Predict(0).high.total, eight.high.total);
}

TEST_F(PredictMemoryTest, ASplitBackwardKeepsWhatItsWeightsNeed) {
  Plan("zb-h1", 2, 1, 4, 1);
  Plan("1f1b", 2, 1, 4, 1);
  const int64_t whole = Predict(0).low.total;
  Plan("zb-h1", 2, 1, 4, 1);
  EXPECT_GE(Predict(0).low.total, whole);
  question_.profiles[0].stages[0].splits = false;
  EXPECT_EQ(PredictMemory(question_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(PredictMemoryTest, PoolsAndCheckpointsAreThereToo) {
  Plan("1f1b", 2, 1, 2, 1);
  const int64_t before = Predict(1).low.total;
  question_.receive_pool_bytes[1] = 640;
  EXPECT_EQ(Predict(1).low.total, before + 640);
  // The copy is made between two steps; at worst it is still there in the next.
  question_.checkpoints = true;
  question_.profiles[1].state_copy_bytes = 7000;
  EXPECT_EQ(Predict(1).low.total, 7000 + 640);
  EXPECT_GE(Predict(1).high.total, before + 7000 + 640);
  EXPECT_EQ(Predict(1).high.Of(MemoryCategory::kOther), 7000);
}

TEST_F(PredictMemoryTest, CopiesOfAWorkerAndItsNeighbourAreThereToo) {
  Plan("1f1b", 2, 1, 2, 1);
  const MemoryInterval before = Predict(1);
  question_.profiles[0].state_copy_bytes = 500;
  question_.profiles[1].state_copy_bytes = 70;
  // Worker 1 keeps those of worker 0, and its own.
  question_.copies = 2;
  EXPECT_EQ(Predict(1).low.total, before.low.total + 570);
  EXPECT_EQ(Predict(1).high.total, before.high.total + 2 * 570);
  EXPECT_EQ(Predict(1).high.Of(MemoryCategory::kOther), 2 * 570);
  // Both versions of all stages, before a step's outcome.
  question_.profiles[0].state_copy_bytes = 50000;
  EXPECT_EQ(Predict(1).low.total, 2 * 50070);
  // A job of one step never has two.
  question_.copies = 1;
  EXPECT_EQ(Predict(1).low.total, 50070);
}

TEST_F(PredictMemoryTest, ATiedGradientIsCopiedWhereItIsSent) {
  Plan("1f1b", 2, 1, 2, 1);
  JobSpec spec;
  question_.profiles[0].tied_gradient_bytes = 50000;
  EXPECT_EQ(Predict(0).high.Of(MemoryCategory::kWireSend), 0);
  plan_.schedule.actions[0].push_back(
      schedule::Action{schedule::ActionKind::kReduceTied, StageIndex(0), {}});
  EXPECT_EQ(Predict(0).high.Of(MemoryCategory::kWireSend), 50000);
  EXPECT_EQ(Predict(0).low.total, 50000);
}

TEST_F(PredictMemoryTest, AnEvaluationKeepsNothingForBackward) {
  Plan("1f1b", 2, 1, 2, 2);
  schedule::Schedule evaluation = plan_.schedule;
  for (auto& list : evaluation.actions) {
    std::vector<schedule::Action> forwards;
    for (const schedule::Action& action : list) {
      if (schedule::IsCompute(action.kind)
              ? action.kind == schedule::ActionKind::kForward
              : DirectionOf(action.kind) == Direction::kActivation) {
        forwards.push_back(action);
      }
    }
    list = forwards;
  }
  const int64_t without = Predict(0).high.total;
  question_.evaluation = &evaluation;
  EXPECT_EQ(Predict(0).high.total, without);
  question_.profiles[0].stages[0].evaluation_peak = Bytes(90000);
  EXPECT_EQ(Predict(0).low.total, 90000);
  // At K = 2 the first output may still be there during the second forward.
  EXPECT_EQ(Predict(0).high.total, 90010);
}

// Whatever the schedule: everything goes by the end of the list (a prediction
// that loses count is kInternal), and late acknowledgements only add.
TEST_F(PredictMemoryTest, HoldsForEveryKindOfSchedule) {
  for (const schedule::Generator& kind : schedule::Generators()) {
    if (!kind.trains) continue;
    for (const int workers : {1, 2, 3, 4}) {
      for (const int microbatches : {1, 3, 8}) {
        for (const auto release :
             {ReleasePolicy::kAcknowledged, ReleasePolicy::kNever}) {
          const int v =
              kind.only_stages_per_worker > 0 ? kind.only_stages_per_worker : 2;
          Plan(std::string(kind.kind), workers, v, microbatches, 2);
          question_.release = release;
          for (int worker = 0; worker < workers; ++worker) {
            const MemoryInterval interval = Predict(worker);
            EXPECT_LE(interval.low.total, interval.high.total) << kind.kind;
            EXPECT_GE(interval.low.total, 1000) << kind.kind;
            EXPECT_GE(interval.low.Of(kActivation), 1000) << kind.kind;
          }
        }
      }
    }
  }
}

TEST_F(PredictMemoryTest, RefusesProfilesOfAnotherPlacement) {
  Plan("1f1b", 2, 1, 2, 1);
  question_.profiles[0].stages.clear();
  EXPECT_EQ(PredictMemory(question_).status().code(),
            absl::StatusCode::kInvalidArgument);
  question_.profiles.pop_back();
  EXPECT_EQ(PredictMemory(question_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MayProduceInPlaceTest, WhereTheReceiversMemoryIsMapped) {
  EXPECT_TRUE(MayProduceInPlace(TransportKind::kAuto));
  EXPECT_TRUE(MayProduceInPlace(TransportKind::kShm));
  EXPECT_FALSE(MayProduceInPlace(TransportKind::kTcp));
  EXPECT_FALSE(MayProduceInPlace(TransportKind::kNccl));
  EXPECT_FALSE(MayProduceInPlace(TransportKind::kUcx));
}

TEST(ReceivePoolBytesTest, AreSlotsOfEveryEdgeThatEndsThere) {
  JobSpec spec;
  spec.name = "pools";
  spec.model.layers = 2;
  spec.model.hidden = 64;
  spec.model.heads = 4;
  spec.pipeline.workers = 2;
  const auto plan = PlanJob(spec, nullptr);
  ASSERT_TRUE(plan.ok());
  int64_t slots = 0;
  for (const schedule::EdgePlan& edge : plan->schedule.edges) {
    if (edge.edge.to == WorkerIndex(0)) slots += edge.pool_slots;
  }
  // Whole cache lines.
  EXPECT_EQ(ReceivePoolBytes(plan->schedule, 100, 0)[0], 128 * slots);
  EXPECT_EQ(ReceivePoolBytes(plan->schedule, 100, 65)[0], 128 * slots + 128);
}

}  // namespace
}  // namespace stagecoach::job
