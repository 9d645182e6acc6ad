#ifndef STAGECOACH_COORDINATOR_STEP_OUTCOME_H_
#define STAGECOACH_COORDINATOR_STEP_OUTCOME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "job/job_spec.h"
#include "stagecoach/v1/session.pb.h"

namespace stagecoach::coordinator {

// What is decided about a step when all of its workers are prepared.
struct StepOutcome {
  double loss = 0;       // mean over the step's target tokens
  double grad_norm = 0;  // of all parameters
  double learning_rate = 0;
  double clip_factor = 1;
  bool skip = false;  // a gradient is not finite: change nothing
  // From the start of the first compute action to the end of the last.
  double compute_seconds = 0;
  std::vector<int64_t> busy_nanoseconds;  // by worker
  // Of the evaluation that came before the step, if there was one, and the
  // longest time that a worker spent on it.
  std::optional<double> evaluation_loss;
  double evaluation_seconds = 0;
};

// Adds up what the workers (by index) reported, in an order that does not
// depend on how stages are placed: losses by microbatch, squared norms by
// global parameter index, in double. kInternal if the reports do not cover each
// microbatch once, or a parameter is reported twice; `culprit` is then the
// worker to blame. Pure.
absl::StatusOr<StepOutcome> DecideStep(const job::JobSpec& spec, int64_t step,
                                       int64_t target_tokens,
                                       const std::vector<v1::Prepared>& reports,
                                       int* culprit);

// What the gradients of a step are scaled by: 1 for one that is skipped.
double ClipFactorOf(const job::TrainingSpec& training, bool skip,
                    double grad_norm);

// Whether an evaluation comes before this step; `training.steps`: after the
// last one.
bool EvaluationIsDue(const job::JobSpec& spec, int64_t step);

// Mean loss per target token over the evaluation's microbatches, in the same
// order and with the same errors.
using MicrobatchLosses = google::protobuf::RepeatedPtrField<v1::MicrobatchLoss>;
absl::StatusOr<double> EvaluationLoss(
    const job::JobSpec& spec,
    const std::vector<const MicrobatchLosses*>& losses, int* culprit);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_STEP_OUTCOME_H_
