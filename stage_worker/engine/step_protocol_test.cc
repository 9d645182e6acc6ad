#include "stage_worker/engine/step_protocol.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace stagecoach::worker {
namespace {

using absl::StatusCode;
using schedule::Action;
using schedule::ActionKind;

constexpr ActionKind kF = ActionKind::kForward;
constexpr ActionKind kB = ActionKind::kBackward;
constexpr ActionKind kI = ActionKind::kBackwardInput;
constexpr ActionKind kW = ActionKind::kBackwardWeight;

StepProtocol::Options TwoStages() {
  StepProtocol::Options options;
  options.microbatches = 3;
  StageAssignment first;
  first.stage = StageIndex(2);
  StageAssignment last;
  last.stage = StageIndex(3);
  last.last = true;
  options.stages = {first, last};
  return options;
}

Action Act(ActionKind kind, int stage, int microbatch) {
  Action action;
  action.kind = kind;
  action.stage = StageIndex(stage);
  action.microbatch = MicrobatchIndex(microbatch);
  return action;
}

// Runs `action` if it is legal, and says whether it was.
StatusCode Try(StepProtocol& protocol, const Action& action,
               size_t tensors = 1) {
  const absl::Status legal = protocol.Check(action, tensors);
  if (legal.ok()) protocol.Record(action);
  return legal.code();
}

TEST(StepProtocolTest, LetsAMicrobatchGoForwardAndBackOnce) {
  StepProtocol protocol(TwoStages());
  ASSERT_TRUE(protocol.Begin(StepIndex(0), 8).ok());
  EXPECT_EQ(Try(protocol, Act(kB, 2, 0)), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Try(protocol, Act(kF, 2, 0)), StatusCode::kOk);
  EXPECT_EQ(Try(protocol, Act(kF, 2, 0)), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Try(protocol, Act(kW, 2, 0)), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Try(protocol, Act(kB, 2, 0)), StatusCode::kOk);
  EXPECT_EQ(Try(protocol, Act(kB, 2, 0)), StatusCode::kFailedPrecondition);
}

TEST(StepProtocolTest, LetsAWeightGradientFollowItsInputGradient) {
  StepProtocol protocol(TwoStages());
  ASSERT_TRUE(protocol.Begin(StepIndex(0), 8).ok());
  EXPECT_EQ(Try(protocol, Act(kF, 2, 1)), StatusCode::kOk);
  EXPECT_EQ(Try(protocol, Act(kI, 2, 1)), StatusCode::kOk);
  EXPECT_EQ(Try(protocol, Act(kB, 2, 1)), StatusCode::kFailedPrecondition);
  EXPECT_EQ(protocol.Finish().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Try(protocol, Act(kW, 2, 1), 0), StatusCode::kOk);
  EXPECT_EQ(Try(protocol, Act(kW, 2, 1), 0), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(protocol.Finish().ok());
}

TEST(StepProtocolTest, NamesThePlaceAndWhatIsMissing) {
  StepProtocol protocol(TwoStages());
  ASSERT_TRUE(protocol.Begin(StepIndex(37), 8).ok());
  EXPECT_EQ(protocol.Check(Act(kB, 3, 2), 0).message(),
            "stage 3, step 37, microbatch 2: B needs a microbatch that is run "
            "forward, but this one is not run");
}

TEST(StepProtocolTest, RefusesWhatTheWorkerDoesNotHave) {
  StepProtocol protocol(TwoStages());
  ASSERT_TRUE(protocol.Begin(StepIndex(0), 8).ok());
  EXPECT_EQ(Try(protocol, Act(kF, 1, 0)), StatusCode::kInvalidArgument);
  EXPECT_EQ(Try(protocol, Act(kF, 2, 3)), StatusCode::kInvalidArgument);
  EXPECT_EQ(Try(protocol, Act(kF, 2, -1)), StatusCode::kInvalidArgument);
}

TEST(StepProtocolTest, KnowsWhichStagesTakeTensors) {
  StepProtocol protocol(TwoStages());
  ASSERT_TRUE(protocol.Begin(StepIndex(0), 8).ok());
  EXPECT_EQ(Try(protocol, Act(kF, 2, 0), 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(Try(protocol, Act(kF, 3, 0), 1), StatusCode::kOk);
  EXPECT_EQ(Try(protocol, Act(kB, 3, 0), 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(Try(protocol, Act(kB, 3, 0), 0), StatusCode::kOk);
}

TEST(StepProtocolTest, KeepsGradientsBetweenFinishAndUpdate) {
  StepProtocol protocol(TwoStages());
  EXPECT_EQ(protocol.Finish().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(protocol.Begin(StepIndex(4), 8).ok());
  EXPECT_FALSE(protocol.Begin(StepIndex(5), 8).ok()) << "still running";
  EXPECT_FALSE(protocol.Update(StepIndex(4)).ok()) << "not finished";
  EXPECT_TRUE(protocol.Finish().ok());
  EXPECT_EQ(Try(protocol, Act(kF, 2, 0)), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(protocol.Update(StepIndex(5)).ok()) << "another step";
  EXPECT_TRUE(protocol.Update(StepIndex(4)).ok());
  EXPECT_FALSE(protocol.Update(StepIndex(4)).ok()) << "applied already";
}

TEST(StepProtocolTest, BeginsTheNextStepWhereTheUpdateWasSkipped) {
  StepProtocol protocol(TwoStages());
  ASSERT_TRUE(protocol.Begin(StepIndex(4), 8).ok());
  ASSERT_TRUE(protocol.Finish().ok());
  EXPECT_TRUE(protocol.Begin(StepIndex(5), 8).ok());
}

TEST(StepProtocolTest, ForgetsDroppedGradients) {
  StepProtocol protocol(TwoStages());
  ASSERT_TRUE(protocol.Begin(StepIndex(4), 8).ok());
  ASSERT_TRUE(protocol.Finish().ok());
  protocol.Drop();
  EXPECT_FALSE(protocol.Update(StepIndex(4)).ok());
}

TEST(StepProtocolTest, EvaluationEndsWithForwards) {
  StepProtocol protocol(TwoStages());
  ASSERT_TRUE(protocol.BeginEvaluation(StepIndex(0), 9).ok());
  EXPECT_TRUE(protocol.evaluating());
  EXPECT_EQ(Try(protocol, Act(kF, 2, 8)), StatusCode::kOk);
  EXPECT_EQ(Try(protocol, Act(kF, 2, 9)), StatusCode::kInvalidArgument);
  EXPECT_EQ(Try(protocol, Act(kB, 2, 8)), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(protocol.Finish().ok());
  EXPECT_FALSE(protocol.Update(StepIndex(0)).ok()) << "nothing to apply";
  ASSERT_TRUE(protocol.Begin(StepIndex(0), 8).ok());
  EXPECT_FALSE(protocol.evaluating());
  EXPECT_EQ(Try(protocol, Act(kF, 2, 8)), StatusCode::kInvalidArgument)
      << "the step's own number of microbatches";
}

// Whatever was called before, Drop and Begin give a fresh step.
TEST(StepProtocolTest, DropIsLegalInAnyState) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  StepProtocol protocol(TwoStages());
  for (int round = 0; round < 200; ++round) {
    for (unsigned calls = random() % 12; calls > 0; --calls) {
      const int microbatch = static_cast<int>(random() % 3);
      switch (random() % 7) {
        case 0:
          (void)protocol.Begin(StepIndex(1), 8);
          break;
        case 1:
          (void)protocol.Finish();
          break;
        case 2:
          (void)protocol.Update(StepIndex(1));
          break;
        default:
          Try(protocol,
              Act(static_cast<ActionKind>(random() % 4), 2, microbatch));
      }
    }
    protocol.Drop();
    EXPECT_EQ(Try(protocol, Act(kF, 2, 0)), StatusCode::kFailedPrecondition);
    ASSERT_TRUE(protocol.Begin(StepIndex(round), 8).ok());
    EXPECT_EQ(Try(protocol, Act(kB, 2, 0)), StatusCode::kFailedPrecondition);
    EXPECT_EQ(Try(protocol, Act(kF, 2, 0)), StatusCode::kOk);
  }
}

}  // namespace
}  // namespace stagecoach::worker
