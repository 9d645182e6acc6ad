#include "coordinator/step_outcome.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "job/plan.h"

namespace stagecoach::coordinator {
namespace {

using Reports = std::vector<v1::Prepared>;

// Of the losses that each worker reported.
absl::StatusOr<double> SumLosses(
    const std::vector<const MicrobatchLosses*>& reports, int64_t microbatches,
    int* culprit) {
  std::map<int64_t, double> losses;
  for (size_t worker = 0; worker < reports.size(); ++worker) {
    for (const v1::MicrobatchLoss& loss : *reports[worker]) {
      *culprit = static_cast<int>(worker);
      if (loss.microbatch() < 0 || loss.microbatch() >= microbatches ||
          !losses.emplace(loss.microbatch(), loss.loss_sum()).second) {
        return absl::InternalError(
            absl::StrCat("reported the loss of microbatch ", loss.microbatch(),
                         " twice, or there is none of this number"));
      }
    }
  }
  if (static_cast<int64_t>(losses.size()) != microbatches) {
    return absl::InternalError(absl::StrCat("reported the losses of ",
                                            losses.size(), " microbatches of ",
                                            microbatches));
  }
  double sum = 0;
  for (const auto& [microbatch, loss] : losses) sum += loss;
  return sum;
}

absl::StatusOr<double> GlobalNorm(const Reports& reports, int* culprit) {
  std::map<int64_t, double> squares;
  for (size_t worker = 0; worker < reports.size(); ++worker) {
    for (const v1::ParameterNorm& norm : reports[worker].norms()) {
      *culprit = static_cast<int>(worker);
      if (!squares.emplace(norm.global_index(), norm.squared()).second) {
        return absl::InternalError(
            absl::StrCat("reported the norm of parameter ", norm.global_index(),
                         ", which was reported before"));
      }
    }
  }
  double sum = 0;
  for (const auto& [index, squared] : squares) sum += squared;
  return std::sqrt(sum);
}

// Workers on one host share a clock; on several, this is an estimate.
double ComputeSeconds(const Reports& reports) {
  int64_t start = reports.front().compute_start_nanoseconds();
  int64_t end = reports.front().compute_end_nanoseconds();
  for (const v1::Prepared& report : reports) {
    start = std::min(start, report.compute_start_nanoseconds());
    end = std::max(end, report.compute_end_nanoseconds());
  }
  return static_cast<double>(end - start) * 1e-9;
}

}  // namespace

double ClipFactorOf(const job::TrainingSpec& training, bool skip,
                    double grad_norm) {
  return skip ? 1 : job::ClipFactor(training.gradient_clip, grad_norm);
}

bool EvaluationIsDue(const job::JobSpec& spec, int64_t step) {
  if (spec.evaluation.path.empty()) return false;
  return step % spec.evaluation.every_steps == 0 || step == spec.training.steps;
}

absl::StatusOr<double> EvaluationLoss(
    const job::JobSpec& spec,
    const std::vector<const MicrobatchLosses*>& losses, int* culprit) {
  *culprit = static_cast<int>(losses.size()) - 1;
  const int64_t microbatches = spec.evaluation.microbatches;
  SC_ASSIGN_OR_RETURN(const double sum,
                      SumLosses(losses, microbatches, culprit));
  const int64_t tokens =
      microbatches * spec.training.microbatch_size * spec.data.TargetsPerRow();
  return sum / static_cast<double>(tokens);
}

absl::StatusOr<StepOutcome> DecideStep(const job::JobSpec& spec, int64_t step,
                                       int64_t target_tokens,
                                       const Reports& reports, int* culprit) {
  const job::TrainingSpec& training = spec.training;
  StepOutcome outcome;
  std::vector<const MicrobatchLosses*> losses;
  std::vector<const MicrobatchLosses*> evaluation_losses;
  for (const v1::Prepared& report : reports) {
    losses.push_back(&report.losses());
    evaluation_losses.push_back(&report.evaluation_losses());
    outcome.evaluation_seconds =
        std::max(outcome.evaluation_seconds,
                 static_cast<double>(report.evaluation_nanoseconds()) * 1e-9);
  }
  if (EvaluationIsDue(spec, step)) {
    SC_ASSIGN_OR_RETURN(outcome.evaluation_loss,
                        EvaluationLoss(spec, evaluation_losses, culprit));
  }
  // The last stage's worker, unless it turns out otherwise.
  *culprit = static_cast<int>(reports.size()) - 1;
  SC_ASSIGN_OR_RETURN(const double loss_sum,
                      SumLosses(losses, training.microbatches, culprit));
  outcome.loss = loss_sum / static_cast<double>(target_tokens);
  SC_ASSIGN_OR_RETURN(outcome.grad_norm, GlobalNorm(reports, culprit));
  outcome.skip = !std::isfinite(outcome.grad_norm);
  for (const v1::Prepared& report : reports) {
    if (!report.all_finite()) outcome.skip = true;
    outcome.busy_nanoseconds.push_back(report.busy_nanoseconds());
  }
  outcome.learning_rate = job::LearningRateAt(training, step);
  outcome.clip_factor = ClipFactorOf(training, outcome.skip, outcome.grad_norm);
  outcome.compute_seconds = ComputeSeconds(reports);
  return outcome;
}

}  // namespace stagecoach::coordinator
