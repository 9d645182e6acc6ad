// The first moments of a life that goes on from another's journal.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "coordinator/controller.h"
#include "coordinator/log_fields.h"
#include "job/profile_proto.h"
#include "job/spec_proto.h"

namespace stagecoach::coordinator {
namespace {

struct RestoredPlans {
  std::shared_ptr<const PlannedJob> present;
  std::shared_ptr<const PlannedJob> next;  // null: none waits
};

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
  // Until the job runs, its checkpoint is the one it begins with; afterwards no
  // worker is told of it any more.
  planned.first_step = job.first_step;
  if (job.first_step > 0) planned.checkpoint = job.checkpoint_path;
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

// The plans that the workers of a placed job have. kFailedPrecondition if they
// cannot be made again.
absl::StatusOr<RestoredPlans> RestorePlans(const JobRecord& job,
                                           const Planner& planner) {
  absl::StatusOr<RestoredPlans> plans = MakePlans(job, planner);
  if (!plans.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "after a restart of the coordinator the job could not be planned "
        "again: ",
        plans.status().message()));
  }
  if (plans->present->schedule_id == job.schedule_id) return plans;
  return absl::FailedPreconditionError(absl::StrCat(
      "after a restart of the coordinator the job has schedule ",
      plans->present->schedule_id, " instead of ", job.schedule_id,
      ": its schedule file has changed, or the coordinator is of another "
      "build; submit the job again"));
}

}  // namespace

absl::Status Controller::TakeOver(ClusterState state) {
  state_ = std::move(state);
  SC_RETURN_IF_ERROR(TryCommit(CoordinatorStarted{options_.term}));
  int live = 0;
  for (const auto& [name, worker] : state_.workers()) {
    if (worker.dead) continue;
    ++live;
    Away& away = away_[name];
    away.lost_at = Now() + options_.return_wait;
    away.reason =
        absl::StrCat("it did not come back after a restart of the coordinator");
  }
  for (const auto& [name, away] : away_) {
    if (state_.FindWorker(name)->suspect) continue;
    SC_RETURN_IF_ERROR(TryCommit(WorkerSuspected{
        name,
        "the coordinator was started again, and it has not come back "
        "yet"}));
  }
  // A copy: jobs may end.
  const std::vector<std::string> order = state_.job_order();
  for (const std::string& id : order) TakeOverJob(*state_.FindJob(id));
  if (!order.empty() || live > 0) {
    LogInfo(absl::StrCat("term ", options_.term.value(), ": goes on with ",
                         order.size(), " jobs, ", runs_.size(),
                         " of them placed, and ", live, " workers"));
  }
  return stopped_;
}

void Controller::TakeOverJob(const JobRecord& job) {
  const std::string id = job.id;
  switch (job.state) {
    case JobState::kQueued:
      return StartPlanning(id);
    case JobState::kPlanning:
      return Plan(id);
    case JobState::kPlacing:
    case JobState::kRunning:
    case JobState::kFailing:
    case JobState::kCancelling:
      return TakeOverRun(job);
    case JobState::kSucceeded:
    case JobState::kFailed:
    case JobState::kCancelled:
      break;
  }
  // It has its outcome, but a worker may not have let go yet.
  for (const auto& [name, worker] : state_.workers()) {
    if (worker.job_id == id) return TakeOverRun(job);
  }
}

void Controller::TakeOverRun(const JobRecord& job) {
  const std::string id = job.id;
  JobRun::Recorded recorded;
  recorded.running = job.state == JobState::kRunning;
  recorded.releasing = !recorded.running && job.state != JobState::kPlacing;
  recorded.steps = job.steps_committed();
  recorded.checkpoint_step =
      std::max(job.checkpoint_step, job.failed_checkpoint_step);
  if (!job.steps.empty()) recorded.last_step = job.steps.back();
  std::vector<JobRun::Member> members;
  std::vector<FailureReport> lost;
  for (size_t i = 0; i < job.workers.size(); ++i) {
    const JobWorkerRecord& part = job.workers[i];
    const WorkerRecord& worker = *state_.FindWorker(part.name);
    const bool holding = worker.job_id == id;
    recorded.holding.push_back(holding);
    recorded.finished.push_back(part.finished);
    recorded.parameters.push_back(part.parameters);
    if (part.predicted.has_value()) {
      recorded.predicted.push_back(*part.predicted);
    }
    recorded.evaluation_losses.push_back(part.evaluation_losses);
    members.push_back({part.name, worker.incarnation, worker.peer_address});
    if (holding || part.finished || recorded.releasing) continue;
    FailureReport report;
    report.worker = static_cast<int>(i);
    report.lost = true;
    report.kind = FailureKind::kWorkerLost;
    report.message = absl::StrCat("the worker was lost: ", worker.reason);
    lost.push_back(std::move(report));
  }
  std::shared_ptr<const PlannedJob> planned = std::make_shared<PlannedJob>();
  absl::Status status;
  if (!recorded.releasing) {
    const absl::StatusOr<RestoredPlans> plans =
        RestorePlans(job, options_.planner);
    status = plans.status();
    if (plans.ok()) {
      planned = plans->present;
      recorded.next_plan = plans->next;
    }
  }
  auto [it, added] =
      runs_.emplace(id, Run(JobRun(id, job.epoch, job.spec, std::move(planned),
                                   std::move(members))));
  Run& run = it->second;
  run.run.TakeOver(recorded);
  run.placed = Now();
  run.recorded_steps = recorded.steps;
  if (recorded.releasing) {
    run.failed_deadline = Now() + options_.return_wait + options_.failed_wait;
    run.release_deadline = Now() + options_.return_wait + options_.release_wait;
    return CheckReleased(id);
  }
  LogInfo(absl::StrCat("waits for its workers to come back, ", recorded.steps,
                       " steps are recorded"),
          JobFields(id));
  if (!status.ok()) {
    FailureVerdict verdict;
    verdict.cause.kind = FailureKind::kInvalid;
    verdict.cause.stage = 0;
    verdict.cause.worker = job.workers.front().name;
    verdict.cause.message = std::string(status.message());
    FailJob(id, std::move(verdict));
  }
  if (status.ok() && lost.empty() && it->second.run.holding().empty()) {
    // All have finished, and only the job's success was not recorded. Nobody is
    // left to come back, so its first worker's word is said for it.
    v1::WorkerMessage message;
    message.mutable_resumed()->set_state(v1::PLACEMENT_STATE_NOTHING);
    return Perform(id, it->second.run.OnMessage(0, message, Now()));
  }
  for (FailureReport& report : lost) {
    if (runs_.count(id) > 0) ReportFailure(id, std::move(report));
  }
  // Its workers have to come back before they can let go.
  if (it = runs_.find(id); it == runs_.end()) return;
  it->second.failed_deadline += options_.return_wait;
  it->second.release_deadline += options_.return_wait;
}

}  // namespace stagecoach::coordinator
