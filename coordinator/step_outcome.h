#ifndef STAGECOACH_COORDINATOR_STEP_OUTCOME_H_
#define STAGECOACH_COORDINATOR_STEP_OUTCOME_H_

#include <cstdint>
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
};

// Adds up what the workers (by index) reported, in an order that does not
// depend on how stages are placed: losses by microbatch, squared norms by
// global parameter index, in double. kInternal if the reports do not cover each
// microbatch once, or a parameter is reported twice; `culprit` is then the
// worker to blame. Pure.
absl::StatusOr<StepOutcome> DecideStep(const job::TrainingSpec& training,
                                       int64_t step, int64_t target_tokens,
                                       const std::vector<v1::Prepared>& reports,
                                       int* culprit);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_STEP_OUTCOME_H_
