#ifndef STAGECOACH_JOB_PLAN_H_
#define STAGECOACH_JOB_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor_descriptor.h"
#include "job/job_spec.h"
#include "job/learning_rate.h"
#include "job/split.h"
#include "schedule/schedule.h"
#include "schedule/simulator.h"
#include "schedule/verifier.h"

namespace stagecoach::job {

// All that can be decided about a job before any worker is involved.
struct JobPlan {
  std::vector<StageLayers> stages;
  schedule::Schedule schedule;  // lowered and verified
  schedule::Verdict verdict;
  schedule::SimulateResult simulated;  // at equal costs
  // What one microbatch puts on a wire behind each stage (activation), and the
  // gradient coming back; equal for every boundary of these models.
  TensorDescriptor boundary;
  int64_t target_tokens_per_step = 0;
};

// Splits, generates (or loads a file), lowers with K and tied embeddings,
// verifies and simulates. kInvalidArgument with the verifier's words if the
// schedule is refused. Needs a spec that Validate accepts. Deterministic; reads
// at most the schedule file.
absl::StatusOr<JobPlan> PlanJob(const JobSpec& spec);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_PLAN_H_
