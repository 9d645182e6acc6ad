#include "job/learning_rate.h"

#include "gtest/gtest.h"

namespace stagecoach::job {
namespace {

TrainingSpec Spec(LearningRateSchedule schedule) {
  TrainingSpec training;
  training.learning_rate = 1;
  training.minimum_learning_rate = 0.5;
  training.learning_rate_schedule = schedule;
  training.warmup_steps = 4;
  training.steps = 12;
  return training;
}

TEST(LearningRateTest, RisesInEqualPartsDuringWarmUp) {
  for (const auto schedule :
       {LearningRateSchedule::kConstant, LearningRateSchedule::kLinear,
        LearningRateSchedule::kCosine}) {
    const TrainingSpec training = Spec(schedule);
    EXPECT_EQ(LearningRateAt(training, 0), 0.25);
    EXPECT_EQ(LearningRateAt(training, 1), 0.5);
    EXPECT_EQ(LearningRateAt(training, 3), 1);
    EXPECT_EQ(LearningRateAt(training, 4), 1);
  }
}

TEST(LearningRateTest, ConstantStays) {
  EXPECT_EQ(LearningRateAt(Spec(LearningRateSchedule::kConstant), 11), 1);
}

// 8 steps after warm-up: t = 6 is a quarter of the way, t = 8 half.
TEST(LearningRateTest, LinearFallsEvenly) {
  const TrainingSpec training = Spec(LearningRateSchedule::kLinear);
  EXPECT_EQ(LearningRateAt(training, 6), 0.875);
  EXPECT_EQ(LearningRateAt(training, 8), 0.75);
  EXPECT_EQ(LearningRateAt(training, 11), 0.5625);
}

TEST(LearningRateTest, CosineFallsSlowlyFastSlowly) {
  const TrainingSpec training = Spec(LearningRateSchedule::kCosine);
  // 0.5 + 0.25 (1 + cos(pi / 4)), and so on.
  EXPECT_NEAR(LearningRateAt(training, 6), 0.9267766952966369, 1e-15);
  EXPECT_NEAR(LearningRateAt(training, 8), 0.75, 1e-15);
  EXPECT_NEAR(LearningRateAt(training, 10), 0.5732233047033631, 1e-15);
}

// The defaults: 3e-4, warm-up 2, 50 steps, down to 0.
TEST(LearningRateTest, DefaultsGiveTheKnownValues) {
  const TrainingSpec training;
  EXPECT_DOUBLE_EQ(LearningRateAt(training, 0), 1.5e-4);
  EXPECT_DOUBLE_EQ(LearningRateAt(training, 1), 3e-4);
  EXPECT_DOUBLE_EQ(LearningRateAt(training, 2), 3e-4);
  EXPECT_DOUBLE_EQ(LearningRateAt(training, 26), 1.5e-4);
  EXPECT_NEAR(LearningRateAt(training, 49), 3.211615142094781e-7, 1e-20);
}

TEST(LearningRateTest, SurvivesAJobThatIsAllWarmUpAndStepsPastTheEnd) {
  TrainingSpec training = Spec(LearningRateSchedule::kCosine);
  training.steps = 1;
  EXPECT_EQ(LearningRateAt(training, 0), 0.25);
  EXPECT_EQ(LearningRateAt(training, 9), 0.5);
  training.warmup_steps = 0;
  EXPECT_EQ(LearningRateAt(training, 0), 1);
  EXPECT_EQ(LearningRateAt(training, 1), 0.5);
}

TEST(ClipFactorTest, ShrinksOnlyNormsAboveTheClip) {
  EXPECT_EQ(ClipFactor(1, 0.5), 1);
  EXPECT_EQ(ClipFactor(1, 0), 1);
  EXPECT_EQ(ClipFactor(1, 4), 1 / (4 + 1e-6));
  EXPECT_EQ(ClipFactor(2, 4), 2 / (4 + 1e-6));
}

TEST(ClipFactorTest, ZeroIsOff) { EXPECT_EQ(ClipFactor(0, 1e9), 1); }

}  // namespace
}  // namespace stagecoach::job
