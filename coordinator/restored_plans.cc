#include "coordinator/restored_plans.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "job/profile_proto.h"
#include "job/spec_proto.h"

namespace stagecoach::coordinator {
namespace {

absl::StatusOr<PlannedJob> PlanUnder(const PlannedJob& planned,
                                     const std::string& schedule,
                                     int64_t send_budget,
                                     const Planner& planner) {
  SC_ASSIGN_OR_RETURN(const job::JobSpec spec,
                      SpecUnder(planned, schedule, send_budget));
  return PlanForWorkers(spec, /*profile=*/nullptr, planner);
}

absl::StatusOr<RestoredPlans> MakePlans(const JobRecord& job,
                                        const Planner& planner) {
  SC_ASSIGN_OR_RETURN(const job::JobSpec spec, job::FromProto(job.spec));
  std::optional<job::ModelProfile> profile;
  if (job.profile.has_value()) {
    SC_ASSIGN_OR_RETURN(profile,
                        job::FromProto(*job.profile, spec.model.layers));
  }
  SC_ASSIGN_OR_RETURN(
      PlannedJob planned,
      PlanForWorkers(spec, profile.has_value() ? &*profile : nullptr, planner));
  if (!job.requested_schedule.empty()) {
    SC_ASSIGN_OR_RETURN(planned, PlanUnder(planned, job.requested_schedule,
                                           job.requested_send_budget, planner));
  }
  planned.first_step = job.begin_step;
  planned.checkpoint = job.begin_checkpoint;
  RestoredPlans plans;
  plans.present = std::make_shared<const PlannedJob>(std::move(planned));
  if (!job.next_schedule.empty()) {
    SC_ASSIGN_OR_RETURN(PlannedJob next,
                        PlanUnder(*plans.present, job.next_schedule,
                                  job.next_send_budget, planner));
    plans.next = std::make_shared<const PlannedJob>(std::move(next));
  }
  return plans;
}

}  // namespace

absl::StatusOr<RestoredPlans> RestorePlans(const JobRecord& job,
                                           const Planner& planner) {
  absl::StatusOr<RestoredPlans> plans = MakePlans(job, planner);
  if (!plans.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job could not be planned again: ", plans.status().message()));
  }
  if (plans->present->schedule_id == job.schedule_id) return plans;
  return absl::FailedPreconditionError(absl::StrCat(
      "planned again, the job has schedule ", plans->present->schedule_id,
      " instead of ", job.schedule_id,
      ": its schedule file has changed, or the coordinator is of another "
      "build; submit the job again"));
}

}  // namespace stagecoach::coordinator
