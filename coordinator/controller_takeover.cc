// The first moments of a life that goes on from another's journal.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "coordinator/controller.h"
#include "coordinator/log_fields.h"
#include "coordinator/restored_plans.h"

namespace stagecoach::coordinator {

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
    case JobState::kRecovering:
      return TakeOverRecovery(job);
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
  recorded.keep_states = job.state == JobState::kRecovering;
  recorded.requested_checkpoint_step = job.requested_checkpoint_step;
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
  run.run.RestoreLossScale(job.first_loss_scale, job.steps);
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
    verdict.cause.message =
        absl::StrCat("after a restart of the coordinator: ", status.message());
    const std::string reason = DescribeCause(verdict.cause);
    FailJob(id, std::move(verdict), reason);
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
