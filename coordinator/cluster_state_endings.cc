#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/cluster_state_applier.h"

namespace stagecoach::coordinator {

absl::Status ClusterState::Applier::operator()(const JobRefused& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Find(event.job_id, &job));
  // Only JobFailed ends a job that had workers.
  if (job->state != JobState::kPlanning) return Impossible("refused too late");
  SC_RETURN_IF_ERROR(state.Transition(*job, JobState::kFailed, at));
  job->reason = event.message;
  job->cause.emplace();
  job->cause->kind = FailureKind::kInvalid;
  job->cause->message = event.message;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const JobRecovering& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Move(event.job_id, JobState::kRecovering, &job));
  job->reason = event.reason;
  if (!job->recoveries.empty()) {
    absl::Time& before = job->recoveries.back().caught_up;
    before = std::min(before, at);
  }
  RecoveryRecord recovery;
  recovery.cause = event.cause;
  recovery.victims = event.victims;
  recovery.failed = at;
  recovery.steps_before = job->steps_committed();
  job->recoveries.push_back(std::move(recovery));
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(const JobRewound& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Find(event.job_id, &job));
  // A second time if the copies that it was to begin with are lost, too.
  if (job->state != JobState::kRecovering ||
      (job->rewound && !job->BeginsWithCopies()) || job->recoveries.empty()) {
    return Impossible(absl::StrCat(event.job_id, " does not go back"));
  }
  if (event.step < job->first_step || event.step > job->steps_committed()) {
    return Impossible(absl::StrCat(event.job_id, " has no step ", event.step,
                                   " to go back to"));
  }
  job->rewound = true;
  job->begin_step = event.step;
  job->begin_checkpoint = event.checkpoint;
  job->steps.resize(static_cast<size_t>(event.step - job->first_step));
  job->recoveries.back().step = event.step;
  // Later ones are damaged, or are made again; earlier ones are as they were,
  // if it goes on with copies.
  if (!job->BeginsWithCopies() || job->checkpoint_step > event.step) {
    job->checkpoint_step = job->BeginsWithCopies() ? 0 : event.step;
    job->checkpoint_path = event.checkpoint;
  }
  job->checkpoint_error.clear();
  job->failed_checkpoint_step = 0;
  ++job->revision;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(const JobFailing& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Move(event.job_id, JobState::kFailing, &job));
  job->cause = event.cause;
  job->victims = event.victims;
  job->reason = event.reason;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(const JobFailed& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Find(event.job_id, &job));
  // Only JobRefused fails a job that had no workers.
  if (job->state != JobState::kFailing) return Impossible("failed too early");
  const std::string reason = job->reason;
  SC_RETURN_IF_ERROR(state.Transition(*job, JobState::kFailed, at));
  job->reason = reason;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const JobCancelRequested& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Move(event.job_id, JobState::kCancelling, &job));
  job->reason = event.reason;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const JobCancelled& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Move(event.job_id, JobState::kCancelled, &job));
  job->reason = event.reason;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const JobSucceeded& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Move(event.job_id, JobState::kSucceeded, &job));
  job->parameters = event.parameters;
  job->parameters_sha256 = event.parameters_sha256;
  job->evaluation_loss = event.evaluation_loss;
  for (JobWorkerRecord& part : job->workers) {
    part.parameters.clear();
    part.evaluation_losses.clear();
  }
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const JobForgotten& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Find(event.job_id, &job));
  if (!IsFinished(job->state)) {
    return Impossible(absl::StrCat(event.job_id, " is not finished"));
  }
  for (const auto& [name, worker] : state.workers_) {
    if (worker.job_id == event.job_id) {
      return Impossible(
          absl::StrCat("worker ", name, " still holds ", event.job_id));
    }
  }
  std::vector<std::string>& order = state.job_order_;
  order.erase(std::remove(order.begin(), order.end(), event.job_id),
              order.end());
  state.requests_.erase(job->request_id);
  state.jobs_.erase(event.job_id);
  return absl::OkStatus();
}

}  // namespace stagecoach::coordinator
