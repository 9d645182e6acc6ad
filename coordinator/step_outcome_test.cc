#include "coordinator/step_outcome.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "job/plan.h"

namespace stagecoach::coordinator {
namespace {

job::JobSpec Training(int64_t microbatches) {
  job::JobSpec spec;
  spec.training.microbatches = microbatches;
  spec.training.steps = 10;
  return spec;
}

v1::Prepared Report() {
  v1::Prepared report;
  report.set_all_finite(true);
  return report;
}

void AddLoss(v1::Prepared& report, int microbatch, double loss) {
  report.add_losses()->set_microbatch(microbatch);
  report.mutable_losses()->rbegin()->set_loss_sum(loss);
}

void AddNorm(v1::Prepared& report, int64_t index, double squared) {
  report.add_norms()->set_global_index(index);
  report.mutable_norms()->rbegin()->set_squared(squared);
}

TEST(StepOutcomeTest, LossIsTheMeanOverTargetTokens) {
  std::vector<v1::Prepared> reports = {Report(), Report()};
  AddLoss(reports[1], 1, 30);
  AddLoss(reports[1], 0, 12);
  AddNorm(reports[0], 0, 9);
  AddNorm(reports[1], 1, 16);
  int culprit = -1;
  const auto outcome = DecideStep(Training(2), 0, 21, reports, &culprit);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->loss, 2.0);
  EXPECT_EQ(outcome->grad_norm, 5.0);
  EXPECT_FALSE(outcome->skip);
}

// Numbers whose sum depends on the order: the same ones give the same bits
// however they are spread over workers.
TEST(StepOutcomeTest, SumsDoNotDependOnWhoReports) {
  const std::vector<double> values = {1e16, 1, -1e16, 1, 3e-9, 1e9};
  double in_order = 0;
  for (double value : values) in_order += value;
  double norm_in_order = 0;
  for (double value : values) norm_in_order += std::abs(value);
  for (int shift = 0; shift < 6; ++shift) {
    std::vector<v1::Prepared> reports = {Report(), Report(), Report()};
    for (int i = 0; i < 6; ++i) {
      const int index = (i * 5 + shift) % 6;
      AddLoss(reports[2], index, values[static_cast<size_t>(index)]);
      AddNorm(reports[static_cast<size_t>((i + shift) % 3)], index,
              std::abs(values[static_cast<size_t>(index)]));
    }
    int culprit = -1;
    const auto outcome = DecideStep(Training(6), 0, 1, reports, &culprit);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->loss, in_order);
    EXPECT_EQ(outcome->grad_norm, std::sqrt(norm_in_order));
  }
}

TEST(StepOutcomeTest, RateAndClippingAreTheJobs) {
  job::JobSpec spec = Training(1);
  spec.training.gradient_clip = 1.0;
  std::vector<v1::Prepared> reports = {Report()};
  AddLoss(reports[0], 0, 1);
  AddNorm(reports[0], 0, 16);
  for (int64_t step : {0, 1, 5, 9}) {
    int culprit = -1;
    const auto outcome = DecideStep(spec, step, 1, reports, &culprit);
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->learning_rate, job::LearningRateAt(spec.training, step));
    EXPECT_EQ(outcome->clip_factor, 1.0 / (4.0 + 1e-6));
  }
}

TEST(StepOutcomeTest, AnEvaluationIsDueEveryNStepsAndAtTheEnd) {
  job::JobSpec spec = Training(1);
  EXPECT_FALSE(EvaluationIsDue(spec, 0)) << "off";
  spec.evaluation.path = "/held-out.txt";
  spec.evaluation.every_steps = 4;
  std::vector<int64_t> due;
  for (int64_t step = 0; step <= 10; ++step) {
    if (EvaluationIsDue(spec, step)) due.push_back(step);
  }
  EXPECT_EQ(due, (std::vector<int64_t>{0, 4, 8, 10}));
}

TEST(StepOutcomeTest, EvaluationLossIsTheMeanOverItsOwnTokens) {
  job::JobSpec spec = Training(1);
  spec.data.sequence_length = 3;
  spec.training.microbatch_size = 2;
  spec.evaluation.path = "/held-out.txt";
  spec.evaluation.microbatches = 2;
  std::vector<v1::Prepared> reports = {Report(), Report()};
  AddLoss(reports[1], 0, 1);
  reports[0].set_evaluation_nanoseconds(2'000'000'000);
  for (int i : {1, 0}) {
    reports[1].add_evaluation_losses()->set_microbatch(i);
    reports[1].mutable_evaluation_losses()->rbegin()->set_loss_sum(6 * (i + 1));
  }
  int culprit = -1;
  const auto outcome = DecideStep(spec, 0, 1, reports, &culprit);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->evaluation_loss, 18.0 / 12);
  EXPECT_EQ(outcome->evaluation_seconds, 2);
  EXPECT_FALSE(
      DecideStep(spec, 1, 1, reports, &culprit)->evaluation_loss.has_value());
  reports[1].mutable_evaluation_losses()->RemoveLast();
  EXPECT_EQ(DecideStep(spec, 0, 1, reports, &culprit).status().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(culprit, 1);
}

TEST(StepOutcomeTest, SkipsWhatIsNotFinite) {
  std::vector<v1::Prepared> reports = {Report(), Report()};
  AddLoss(reports[1], 0, 1);
  AddNorm(reports[0], 0, 1);
  int culprit = -1;
  EXPECT_FALSE(DecideStep(Training(1), 0, 1, reports, &culprit)->skip);
  reports[0].set_all_finite(false);
  EXPECT_TRUE(DecideStep(Training(1), 0, 1, reports, &culprit)->skip);
  EXPECT_EQ(DecideStep(Training(1), 0, 1, reports, &culprit)->clip_factor, 1);
  reports[0].set_all_finite(true);
  // All gradients are finite, but their squares overflow.
  AddNorm(reports[1], 1, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(DecideStep(Training(1), 0, 1, reports, &culprit)->skip);
}

TEST(StepOutcomeTest, ComputeSpansFromTheFirstStartToTheLastEnd) {
  std::vector<v1::Prepared> reports = {Report(), Report(), Report()};
  AddLoss(reports[2], 0, 1);
  const int64_t times[3][3] = {{5'000'000'000, 8'000'000'000, 20},
                               {4'000'000'000, 7'000'000'000, 30},
                               {6'000'000'000, 9'500'000'000, 10}};
  for (size_t i = 0; i < 3; ++i) {
    reports[i].set_compute_start_nanoseconds(times[i][0]);
    reports[i].set_compute_end_nanoseconds(times[i][1]);
    reports[i].set_busy_nanoseconds(times[i][2]);
  }
  int culprit = -1;
  const auto outcome = DecideStep(Training(1), 0, 1, reports, &culprit);
  ASSERT_TRUE(outcome.ok());
  EXPECT_DOUBLE_EQ(outcome->compute_seconds, 5.5);
  EXPECT_EQ(outcome->busy_nanoseconds, std::vector<int64_t>({20, 30, 10}));
}

TEST(StepOutcomeTest, RefusesReportsThatDoNotCoverTheStep) {
  const auto error = [](const std::vector<v1::Prepared>& reports,
                        int* culprit) {
    const auto outcome = DecideStep(Training(2), 0, 1, reports, culprit);
    EXPECT_EQ(outcome.status().code(), absl::StatusCode::kInternal);
    return std::string(outcome.status().message());
  };
  int culprit = -1;
  std::vector<v1::Prepared> missing = {Report(), Report()};
  AddLoss(missing[1], 0, 1);
  EXPECT_TRUE(
      absl::StrContains(error(missing, &culprit), "1 microbatches of 2"));
  EXPECT_EQ(culprit, 1);

  std::vector<v1::Prepared> twice = {Report(), Report()};
  AddLoss(twice[1], 0, 1);
  AddLoss(twice[0], 0, 1);
  EXPECT_TRUE(absl::StrContains(error(twice, &culprit), "microbatch 0"));
  EXPECT_EQ(culprit, 1);

  std::vector<v1::Prepared> beyond = {Report(), Report()};
  AddLoss(beyond[0], 2, 1);
  EXPECT_TRUE(absl::StrContains(error(beyond, &culprit), "microbatch 2"));
  EXPECT_EQ(culprit, 0);

  std::vector<v1::Prepared> tied = {Report(), Report()};
  AddLoss(tied[1], 0, 1);
  AddLoss(tied[1], 1, 1);
  AddNorm(tied[0], 7, 1);
  AddNorm(tied[1], 7, 1);
  EXPECT_TRUE(absl::StrContains(error(tied, &culprit), "parameter 7"));
  EXPECT_EQ(culprit, 1);
}

}  // namespace
}  // namespace stagecoach::coordinator
