#ifndef STAGECOACH_JOB_PLAN_H_
#define STAGECOACH_JOB_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "job/boundary.h"
#include "job/job_spec.h"
#include "job/learning_rate.h"
#include "job/memory_prediction.h"
#include "job/model_profile.h"
#include "job/split.h"
#include "schedule/schedule.h"
#include "schedule/simulator.h"
#include "schedule/verifier.h"

namespace stagecoach::job {

// All that can be decided about a job before it runs.
struct JobPlan {
  std::vector<StageLayers> stages;
  schedule::Schedule schedule;  // lowered and verified
  schedule::Verdict verdict;
  // Forwards of an evaluation on the same edges; no workers without one.
  schedule::Schedule evaluation;
  // Whether a profile was at hand. Without one a schedule or split that is
  // "auto" stands for what a profile will choose: 1f1b, and as even as
  // possible.
  bool measured = false;
  bool provisional = false;
  // With the profile's costs, in seconds; else at equal costs.
  schedule::SimulateOptions simulation;
  schedule::SimulateResult simulated;
  // Of a measured plan whose split was "auto": the step's simulated seconds if
  // the layers were split evenly.
  double even_split_seconds = 0;
  // Of a measured plan whose schedule was "auto": how many were simulated.
  size_t schedules_tried = 0;
  // What one microbatch puts on a wire behind each stage; the same behind all.
  Boundary boundary;
  // Of a profile with its workers' memory: each worker's peak.
  std::vector<MemoryInterval> memory;
  int64_t target_tokens_per_step = 0;
};

// Splits, generates (or loads a file, or chooses), lowers with K and tied
// embeddings, verifies and simulates. `profile` is of this spec's model, or
// null. kInvalidArgument with the verifier's words if the schedule is refused.
// Needs a spec that Validate accepts. Deterministic; reads at most the schedule
// file. With a profile and schedule = "auto" it takes seconds for large shapes.
absl::StatusOr<JobPlan> PlanJob(const JobSpec& spec,
                                const ModelProfile* profile);

// What is asked about the memory of a plan's workers, each measured. `plan`
// must outlive the question; the receive pools are the plan's.
MemoryQuestion MemoryQuestionOf(
    const JobSpec& spec, const JobPlan& plan,
    const std::vector<WorkerMemoryProfile>& workers);

// The simulator's view of a plan's stages: measured where there is a profile.
schedule::SimulateOptions SimulationOf(const JobSpec& spec,
                                       const ModelProfile* profile,
                                       const std::vector<StageLayers>& stages);

// The layers of each of `stages` stages: the spec's split, else balanced by
// `profile`, else as even as possible.
absl::StatusOr<std::vector<StageLayers>> ChooseSplit(
    const JobSpec& spec, const ModelProfile* profile, int64_t stages);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_PLAN_H_
