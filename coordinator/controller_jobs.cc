// The life of jobs: submitted, planned, placed, run, ended.
#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/status.h"
#include "coordinator/beginning.h"
#include "coordinator/controller.h"
#include "coordinator/log_fields.h"
#include "coordinator/placement_policy.h"
#include "coordinator/publish.h"
#include "job/spec_proto.h"

namespace stagecoach::coordinator {
namespace {

bool SameSpec(const v1::JobSpec& a, const v1::JobSpec& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

// "predicted peaks: w0 11.20 MiB to 11.70 MiB, w1 ..."
std::string PredictionText(const std::vector<JobRun::Member>& members,
                           const MemoryPredicted& predicted) {
  std::string text = "predicted peaks:";
  for (size_t i = 0; i < predicted.workers.size(); ++i) {
    const v1::MemoryInterval& worker = predicted.workers[i];
    absl::StrAppend(&text, i == 0 ? " " : ", ", members[i].name, " ",
                    FormatByteSize(worker.low().total()), " to ",
                    FormatByteSize(worker.high().total()));
  }
  return text;
}

}  // namespace

void Controller::Submit(v1::SubmitJobRequest request,
                        Reply<v1::SubmitJobResponse> reply) {
  Post([this, request = std::move(request), reply = std::move(reply)] {
    reply(SubmitNow(request));
  });
}

absl::StatusOr<v1::SubmitJobResponse> Controller::SubmitNow(
    const v1::SubmitJobRequest& request) {
  SC_RETURN_IF_ERROR(Admit(request.version()));
  v1::SubmitJobResponse response;
  if (const JobRecord* job = state_.FindRequest(request.request_id());
      job != nullptr) {
    if (!SameSpec(job->spec, request.spec())) {
      return absl::AlreadyExistsError(
          absl::StrCat("request id ", request.request_id(),
                       " was used for another spec (", job->id, ")"));
    }
    response.set_job_id(job->id);
    return response;
  }
  SC_ASSIGN_OR_RETURN(const job::JobSpec spec, job::FromProto(request.spec()));
  const std::string job_id = absl::StrCat("job-", state_.jobs_submitted() + 1);
  SC_RETURN_IF_ERROR(TryCommit(JobSubmitted{job_id, request.request_id(),
                                            request.spec(), request.resume()}));
  LogInfo(absl::StrCat("submitted: ", spec.name), JobFields(job_id));
  StartPlanning(job_id);
  response.set_job_id(job_id);
  return response;
}

void Controller::StartPlanning(const std::string& job_id) {
  if (TryCommit(JobPlanning{job_id}).ok()) Plan(job_id);
}

void Controller::Plan(const std::string& job_id) {
  const JobRecord& job = *state_.FindJob(job_id);
  planning_->Add([this, job_id, spec = job.spec, resume = job.resume] {
    absl::StatusOr<PlannedJob> planned =
        PlanSpec(spec, /*profile=*/nullptr, options_.planner);
    if (planned.ok()) {
      const absl::Status begins = ChooseBeginning(job_id, resume, &*planned);
      if (!begins.ok()) planned = begins;
    }
    Post([this, job_id, planned = std::move(planned)]() mutable {
      OnPlanned(job_id, std::move(planned));
    });
  });
}

void Controller::OnPlanned(const std::string& job_id,
                           absl::StatusOr<PlannedJob> planned) {
  if (!stopped_.ok()) return;
  // It may have been cancelled meanwhile.
  const JobRecord* job = state_.FindJob(job_id);
  if (job == nullptr || job->state != JobState::kPlanning) return;
  if (!planned.ok()) {
    LogWarning(absl::StrCat("refused: ", planned.status().message()),
               JobFields(job_id));
    Commit(JobRefused{job_id, std::string(planned.status().message())});
    return Schedule();
  }
  JobPlanned event;
  event.job_id = job_id;
  event.schedule = ScheduleNameOf(*planned);
  event.schedule_id = planned->schedule_id;
  event.stages = StagePlansOf(planned->plan);
  event.first_step = planned->first_step;
  event.checkpoint = planned->checkpoint;
  event.loss_scale = planned->loss_scale;
  plans_[job_id] = std::make_shared<const PlannedJob>(*std::move(planned));
  Commit(std::move(event));
  Schedule();
}

void Controller::Schedule() {
  if (!stopped_.ok()) return;
  std::string before;
  for (const std::string& job_id : WaitingJobs()) {
    const JobRecord* job = state_.FindJob(job_id);
    // What its workers let go of is kept for it.
    const bool ready = job->state == JobState::kRecovering
                           ? recoveries_.at(job_id).is_ready()
                           : job->planned;
    std::string reason;
    if (!before.empty()) {
      reason = absl::StrCat("waiting behind ", before);
    } else if (ready) {
      WorkerChoice choice = ChooseWorkers(state_.workers(), draining_,
                                          job->spec.pipeline().workers());
      if (!choice.workers.empty()) {
        Place(job_id, choice.workers);
        continue;
      }
      reason = std::move(choice.reason);
    }
    before = job_id;
    if (ready && job->reason != reason) {
      if (!Commit(JobWaiting{job_id, reason})) return;
    }
  }
}

void Controller::Place(const std::string& job_id,
                       const std::vector<std::string>& names) {
  JobPlaced event;
  event.job_id = job_id;
  event.epoch = state_.last_epoch().Next();
  event.workers = names;
  const Epoch epoch = event.epoch;
  // The job stays where it is; TickNow tries again.
  if (!TryCommit(std::move(event)).ok()) return;
  std::vector<JobRun::Member> members;
  for (const std::string& name : names) {
    const WorkerRecord* worker = state_.FindWorker(name);
    JobRun::Member member;
    member.name = name;
    member.incarnation = worker->incarnation;
    member.peer_address = worker->peer_address;
    members.push_back(std::move(member));
    SessionOf(name)->position.reset();
  }
  LogInfo(absl::StrCat("placed on ", names.size(), " workers, epoch ",
                       epoch.value()),
          JobFields(job_id));
  RestoredPlans plans;
  if (auto recovery = recoveries_.extract(job_id); !recovery.empty()) {
    plans = std::move(recovery.mapped().plans);
  } else {
    plans.present = std::move(plans_.extract(job_id).mapped());
  }
  auto [it, added] = runs_.emplace(
      job_id, Run(JobRun(job_id, epoch, state_.FindJob(job_id)->spec,
                         std::move(plans.present), std::move(members))));
  it->second.placed = Now();
  it->second.run.RestoreLossScale(state_.FindJob(job_id)->first_loss_scale,
                                  state_.FindJob(job_id)->steps);
  it->second.run.Reschedule(std::move(plans.next));
  const JobRecord& job = *state_.FindJob(job_id);
  it->second.run.RestoreCheckpoints(job.requested_checkpoint_step,
                                    job.checkpoint_step);
  Perform(job_id, it->second.run.Start());
}

void Controller::Perform(const std::string& job_id, JobRun::Output output) {
  const JobRun& run = runs_.at(job_id).run;
  bool committed = false;
  for (EventBody& event : output.events) {
    committed |= std::holds_alternative<StepCommitted>(event);
    if (const auto* predicted = std::get_if<MemoryPredicted>(&event)) {
      LogInfo(PredictionText(run.members(), *predicted), JobFields(job_id));
    }
    const bool stored = std::holds_alternative<CheckpointStored>(event);
    if (!Commit(std::move(event))) return;
    if (stored) SC_FAILPOINT("coordinator.checkpoint.stored");
  }
  // Now its workers have newer ones.
  if (committed) DropCopies(job_id, /*of_its_workers=*/false);
  size_t outcomes = 0;
  for (auto& [worker, message] : output.messages) {
    if (message.has_assign()) SC_FAILPOINT("coordinator.assign");
    if (message.has_step_commit() || message.step_begin().has_outcome()) {
      if (outcomes == 0) SC_FAILPOINT("coordinator.commit.decided");
      if (outcomes == 1) SC_FAILPOINT("coordinator.commit.partly_sent");
      ++outcomes;
    }
    if (message.has_step_begin()) {
      message.mutable_step_begin()->set_recorded_steps(
          runs_.at(job_id).recorded_steps);
    }
    SendTo(run.members()[static_cast<size_t>(worker)].name, std::move(message),
           run.epoch());
  }
  if (output.over_limit.has_value()) {
    EndForMemory(job_id, *std::move(output.over_limit));
  }
  if (output.may_move) return MoveJob(job_id);
  if (output.profile.has_value()) {
    PlanAgain(job_id, run.epoch(), *output.profile);
  }
  if (output.events.empty()) return;
  if (state_.FindJob(job_id)->state == JobState::kSucceeded) {
    LogInfo("succeeded", JobFields(job_id));
  }
  CheckReleased(job_id);
  // A worker may have become idle.
  Schedule();
}

void Controller::ReportFailure(const std::string& job_id,
                               FailureReport report) {
  Run& run = runs_.at(job_id);
  if (run.run.phase() == JobRun::Phase::kReleasing) return;
  report.at = Now();
  run.reports.push_back(std::move(report));
  CheckBlame(job_id);
  Judge(job_id);
}

// A worker that is away and whose peers have lost it will not come back.
void Controller::CheckBlame(const std::string& job_id) {
  const Run& run = runs_.at(job_id);
  std::set<std::string> gone;
  for (const FailureReport& report : run.reports) {
    if (report.blamed < 0) continue;
    const std::string& name =
        run.run.members()[static_cast<size_t>(report.blamed)].name;
    if (away_.count(name) > 0) gone.insert(name);
  }
  for (const std::string& name : gone) {
    if (away_.count(name) == 0) continue;
    LoseWorker(name, absl::StrCat(away_.at(name).reason,
                                  "; its peers have lost it too"));
  }
}

void Controller::Judge(const std::string& job_id) {
  auto it = runs_.find(job_id);
  if (it == runs_.end() || it->second.reports.empty() ||
      it->second.run.phase() == JobRun::Phase::kReleasing) {
    return;
  }
  const JobRecord* job = state_.FindJob(job_id);
  std::vector<SuspectedWorker> workers;
  for (const JobRun::Member& member : it->second.run.members()) {
    SuspectedWorker worker;
    worker.name = member.name;
    worker.lowest_stage = job->LowestStageOf(static_cast<int>(workers.size()));
    const WorkerRecord* record = state_.FindWorker(member.name);
    const bool ours = record->job_id == job_id;
    worker.silent = ours && record->suspect;
    if (ours) worker.last_position = PositionOf(member.name);
    workers.push_back(std::move(worker));
  }
  std::optional<FailureVerdict> verdict =
      JudgeFailure(workers, it->second.reports, options_.grace, Now());
  if (verdict.has_value()) FailOrRecover(job_id, *std::move(verdict));
}

void Controller::FailJob(const std::string& job_id, FailureVerdict verdict,
                         const std::string& reason) {
  JobFailing event;
  event.job_id = job_id;
  event.reason = reason;
  event.cause = std::move(verdict.cause);
  event.victims = std::move(verdict.victims);
  LogError(absl::StrCat("failed: ", reason), JobFields(job_id));
  if (!Commit(std::move(event))) return;
  runs_.at(job_id).failed_deadline = Now() + options_.failed_wait;
  StartRelease(job_id, reason);
}

void Controller::StartRelease(const std::string& job_id,
                              const std::string& reason) {
  Run& run = runs_.at(job_id);
  run.release_deadline = Now() + options_.release_wait;
  const bool keep_states =
      state_.FindJob(job_id)->state == JobState::kRecovering;
  Perform(job_id, run.run.Release(reason, keep_states));
  CheckReleased(job_id);
}

void Controller::OnWorkerGone(const std::string& job_id, int index,
                              FailureReport report) {
  Run& run = runs_.at(job_id);
  run.run.OnGone(index);
  if (run.run.phase() == JobRun::Phase::kReleasing) {
    return CheckReleased(job_id);
  }
  ReportFailure(job_id, std::move(report));
}

void Controller::CheckReleased(const std::string& job_id) {
  auto it = runs_.find(job_id);
  if (it == runs_.end() || !it->second.run.holding().empty()) return;
  const JobRecord* job = state_.FindJob(job_id);
  if (job->state == JobState::kFailing) {
    Commit(JobFailed{job_id});
  } else if (job->state == JobState::kCancelling) {
    LogInfo("cancelled", JobFields(job_id));
    Commit(JobCancelled{job_id, job->reason});
  } else if (job->state == JobState::kRecovering) {
    runs_.erase(it);
    return ChooseState(job_id);
  } else if (!IsFinished(job->state)) {
    // All have let go, yet there is no outcome: a verdict is being held back.
    return;
  }
  DropCopies(job_id);
  runs_.erase(it);
  Schedule();
}

void Controller::CheckRunDeadlines() {
  std::vector<std::string> jobs;
  for (const auto& [job_id, run] : runs_) jobs.push_back(job_id);
  for (const std::string& job_id : jobs) {
    Judge(job_id);
    auto it = runs_.find(job_id);
    if (it == runs_.end()) continue;
    const Run& run = it->second;
    if (Now() >= run.failed_deadline &&
        state_.FindJob(job_id)->state == JobState::kFailing) {
      if (!Commit(JobFailed{job_id})) return;
    }
    if (Now() < run.release_deadline) continue;
    const std::set<int> holding = run.run.holding();
    const std::vector<JobRun::Member> members = run.run.members();
    for (int index : holding) {
      LoseWorker(members[static_cast<size_t>(index)].name,
                 absl::StrCat("it did not let go of ", job_id, " within ",
                              absl::FormatDuration(options_.release_wait)));
    }
    Schedule();
  }
}

void Controller::Checkpoint(v1::CheckpointJobRequest request,
                            Reply<v1::CheckpointJobResponse> reply) {
  Post([this, request = std::move(request), reply = std::move(reply)] {
    reply(CheckpointNow(request));
  });
}

absl::StatusOr<v1::CheckpointJobResponse> Controller::CheckpointNow(
    const v1::CheckpointJobRequest& request) {
  SC_RETURN_IF_ERROR(Admit(request.version()));
  SC_ASSIGN_OR_RETURN(const JobRecord* job, Find(request.job_id()));
  const auto run = runs_.find(job->id);
  if (run == runs_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat(job->id, " is ", JobStateName(job->state),
                     "; only a running job can be stored"));
  }
  v1::CheckpointJobResponse response;
  response.set_job_id(job->id);
  SC_ASSIGN_OR_RETURN(const int64_t step, run->second.run.RequestCheckpoint());
  // It has promised to make one; that promise is kept over restarts only if it
  // is recorded.
  SC_RETURN_IF_ERROR(TryCommit(CheckpointRequested{job->id, step}));
  response.set_step(step);
  return response;
}

void Controller::Cancel(v1::CancelJobRequest request,
                        Reply<v1::CancelJobResponse> reply) {
  Post([this, request = std::move(request), reply = std::move(reply)] {
    reply(CancelNow(request));
  });
}

absl::StatusOr<v1::CancelJobResponse> Controller::CancelNow(
    const v1::CancelJobRequest& request) {
  SC_RETURN_IF_ERROR(Admit(request.version()));
  SC_ASSIGN_OR_RETURN(const JobRecord* job, Find(request.job_id()));
  const std::string job_id = job->id;
  const std::string reason =
      request.reason().empty() ? "cancelled by its user" : request.reason();
  switch (job->state) {
    case JobState::kQueued:
    case JobState::kPlanning:
      LogInfo(absl::StrCat("cancelled: ", reason), JobFields(job_id));
      SC_RETURN_IF_ERROR(TryCommit(JobCancelled{job_id, reason}));
      plans_.erase(job_id);
      Schedule();
      break;
    case JobState::kPlacing:
    case JobState::kRunning:
      LogInfo(absl::StrCat("being cancelled: ", reason), JobFields(job_id));
      SC_RETURN_IF_ERROR(TryCommit(JobCancelRequested{job_id, reason}));
      StartRelease(job_id, reason);
      break;
    case JobState::kRecovering:
      LogInfo(absl::StrCat("cancelled while it recovers: ", reason),
              JobFields(job_id));
      SC_RETURN_IF_ERROR(TryCommit(JobCancelRequested{job_id, reason}));
      recoveries_.erase(job_id);
      // Nobody holds anything of it, or those who do are letting go.
      if (runs_.count(job_id) == 0) {
        DropCopies(job_id);
        Commit(JobCancelled{job_id, reason});
      }
      Schedule();
      break;
    default:
      break;  // it has its outcome already
  }
  v1::CancelJobResponse response;
  JobView view;
  view.spec = true;
  ToProto(*state_.FindJob(job_id), view, WallNow(), response.mutable_job());
  return response;
}

}  // namespace stagecoach::coordinator
