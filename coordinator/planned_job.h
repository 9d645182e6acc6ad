#ifndef STAGECOACH_COORDINATOR_PLANNED_JOB_H_
#define STAGECOACH_COORDINATOR_PLANNED_JOB_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/event.h"
#include "job/job_spec.h"
#include "job/plan.h"
#include "stagecoach/v1/schedule.pb.h"
#include "stagecoach/v1/session.pb.h"

namespace stagecoach::coordinator {

// A plan, and what of it goes over the wire.
struct PlannedJob {
  job::JobSpec spec;
  job::JobPlan plan;
  v1::Schedule schedule;
  v1::Schedule evaluation;  // empty without one
  std::string schedule_id;  // hash of its contents
  int64_t first_step = 0;
  std::string checkpoint;  // folder to begin with, if first_step > 0
  std::optional<v1::LossScaleState> loss_scale;  // of that checkpoint
  // Or who keeps a copy of each stage as it was then; empty: begins otherwise.
  std::vector<v1::StateSource> sources;
};

// The profile is null until there is one.
using Planner = std::function<absl::StatusOr<job::JobPlan>(
    const job::JobSpec&, const job::ModelProfile* profile)>;

// Plans with `planner` (job::PlanJob, but for tests). kInvalidArgument with the
// verifier's words, or for a schedule larger than a message may be. Takes as
// long as planning takes; reads at most the schedule file.
absl::StatusOr<PlannedJob> PlanForWorkers(const job::JobSpec& spec,
                                          const job::ModelProfile* profile,
                                          const Planner& planner);

// What people are told: a kind, or "auto" while that is not decided.
std::string ScheduleNameOf(const PlannedJob& planned);

// The same of a spec as it came over the wire.
absl::StatusOr<PlannedJob> PlanSpec(const v1::JobSpec& spec,
                                    const job::ModelProfile* profile,
                                    const Planner& planner);

// The spec of a running job under another schedule (a kind or a file) and send
// budget (0: as before): its stages keep their layers. kInvalidArgument for
// what a running job cannot take.
absl::StatusOr<job::JobSpec> SpecUnder(const PlannedJob& planned,
                                       const std::string& schedule,
                                       int64_t send_budget);

// The part of a plan that the coordinator's state keeps, by stage.
std::vector<StagePlan> StagePlansOf(const job::JobPlan& plan);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_PLANNED_JOB_H_
