#include "job/loss_scale.h"

#include "gtest/gtest.h"

namespace stagecoach::job {
namespace {

TrainingSpec Training() {
  TrainingSpec training;
  training.precision = Precision::kFloat16;
  training.initial_loss_scale = 8;
  training.loss_scale_growth_steps = 3;
  return training;
}

TEST(LossScaleTest, IsHalvedByASkippedStepButNotBelowOne) {
  LossScale scale(Training());
  EXPECT_EQ(scale.value(), 8);
  for (const double expected : {4.0, 2.0, 1.0, 1.0}) {
    scale.Record(/*skipped=*/true);
    EXPECT_EQ(scale.value(), expected);
  }
}

TEST(LossScaleTest, IsDoubledByGoodStepsInARow) {
  LossScale scale(Training());
  for (const double expected : {8.0, 8.0, 16.0, 16.0, 16.0, 32.0}) {
    scale.Record(/*skipped=*/false);
    EXPECT_EQ(scale.value(), expected);
  }
}

TEST(LossScaleTest, ASkippedStepBeginsTheCountAgain) {
  LossScale scale(Training());
  scale.Record(false);
  scale.Record(false);
  scale.Record(true);
  EXPECT_EQ(scale.value(), 4);
  for (const double expected : {4.0, 4.0, 8.0}) {
    scale.Record(false);
    EXPECT_EQ(scale.value(), expected);
  }
}

TEST(LossScaleTest, IsOneForOtherTypes) {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kBFloat16}) {
    TrainingSpec training = Training();
    training.precision = precision;
    LossScale scale(training);
    EXPECT_EQ(scale.value(), 1);
    for (int i = 0; i < 5; ++i) scale.Record(i == 0);
    EXPECT_EQ(scale.value(), 1);
  }
}

}  // namespace
}  // namespace stagecoach::job
