// Jobs that survive a failure: their workers let go, a state to go on with is
// chosen, and they are placed again.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "coordinator/beginning.h"
#include "coordinator/controller.h"
#include "coordinator/log_fields.h"
#include "coordinator/recovery_policy.h"

namespace stagecoach::coordinator {

void Controller::FailOrRecover(const std::string& job_id,
                               FailureVerdict verdict) {
  const RecoveryDecision decision =
      DecideRecovery(*state_.FindJob(job_id), verdict.cause);
  std::string reason = DescribeCause(verdict.cause);
  if (decision.recover) {
    return Recover(job_id, std::move(verdict),
                   absl::StrCat(reason, " (failure ", decision.words, ")"));
  }
  if (!decision.words.empty()) {
    absl::StrAppend(&reason, "; ", decision.words);
  }
  FailJob(job_id, std::move(verdict), reason);
}

void Controller::Recover(const std::string& job_id, FailureVerdict verdict,
                         const std::string& reason) {
  JobRecovering event;
  event.job_id = job_id;
  event.cause = std::move(verdict.cause);
  event.victims = std::move(verdict.victims);
  event.reason = reason;
  if (event.cause.kind == FailureKind::kDrained) {
    LogInfo(reason, JobFields(job_id));
  } else {
    LogWarning(absl::StrCat("recovers from a failure: ", reason),
               JobFields(job_id));
  }
  if (!Commit(std::move(event))) return;
  SC_FAILPOINT("coordinator.recovering");
  Recovery& recovery = recoveries_[job_id];
  const JobRun& run = runs_.at(job_id).run;
  // Else they are made again from the record.
  if (!run.IsChangingPlan()) {
    recovery.plans = {run.shared_plan(), run.next_plan()};
  }
  StartRelease(job_id, reason);
}

void Controller::DrainWorker(const std::string& worker,
                             const std::string& reason) {
  if (!draining_.insert(worker).second) return;
  Run* run = RunOf(worker);
  LogInfo(absl::StrCat("drains: ", reason),
          WorkerFields(worker, run == nullptr ? "" : run->run.job_id()));
  if (run == nullptr) return;
  const std::string job_id = run->run.job_id();
  const JobState state = state_.FindJob(job_id)->state;
  if (state != JobState::kRunning && state != JobState::kPlacing) return;
  switch (run->run.phase()) {
    case JobRun::Phase::kProfiling:
    case JobRun::Phase::kAssigning:
    case JobRun::Phase::kConnecting:
      return MoveJob(job_id);
    case JobRun::Phase::kStepping:
      if (!run->run.Drain().ok()) MoveJob(job_id);
      return;
    case JobRun::Phase::kResuming:  // see CheckDraining
    case JobRun::Phase::kFinishing:
    case JobRun::Phase::kReleasing:
      return;
  }
}

// After a restart of the coordinator the workers say that they drain before
// their job's steps go on.
void Controller::CheckDraining() {
  for (const std::string& worker : draining_) {
    Run* run = RunOf(worker);
    if (run == nullptr || run->run.phase() != JobRun::Phase::kStepping) {
      continue;
    }
    run->run.Drain().IgnoreError();
  }
}

void Controller::MoveJob(const std::string& job_id) {
  const JobRecord& job = *state_.FindJob(job_id);
  FailureVerdict verdict;
  verdict.cause.kind = FailureKind::kDrained;
  verdict.cause.message = "the worker was told to stop; the job moves";
  for (size_t i = 0; i < job.workers.size(); ++i) {
    const std::string& name = job.workers[i].name;
    if (draining_.count(name) == 0) continue;
    verdict.cause.worker = name;
    verdict.cause.stage = job.LowestStageOf(static_cast<int>(i));
    break;
  }
  const std::string reason = DescribeCause(verdict.cause);
  Recover(job_id, std::move(verdict), reason);
}

std::vector<v1::StateSource> Controller::SourcesOf(
    const KeptChoice& kept) const {
  std::vector<v1::StateSource> sources;
  for (const std::string& name : kept.keepers) {
    const WorkerRecord* worker = state_.FindWorker(name);
    v1::StateSource source;
    source.set_stage(static_cast<int32_t>(sources.size()));
    source.mutable_keeper()->set_worker(name);
    source.mutable_keeper()->set_incarnation(worker->incarnation.value());
    source.mutable_keeper()->set_peer_address(worker->peer_address);
    sources.push_back(std::move(source));
  }
  return sources;
}

bool Controller::AllKept(const PlannedJob& planned) const {
  return std::all_of(planned.sources.begin(), planned.sources.end(),
                     [this](const v1::StateSource& source) {
                       return kept_.count(source.keeper().worker()) > 0;
                     });
}

void Controller::ChooseState(const std::string& job_id) {
  // A copy, for the other thread.
  auto job = std::make_shared<const JobRecord>(*state_.FindJob(job_id));
  Recovery& recovery = recoveries_.at(job_id);
  recovery.give_up = absl::InfiniteFuture();
  recovery.postponed = job->spec.recovery().neighbour_copy() && !away_.empty();
  if (recovery.postponed) return;
  const std::optional<KeptChoice> kept =
      ChooseKept(kept_, job_id, job->stages.size(), job->first_step,
                 job->steps_committed());
  std::vector<v1::StateSource> sources;
  if (kept.has_value()) sources = SourcesOf(*kept);
  planning_->Add(
      [this, job, kept, sources = std::move(sources), plans = recovery.plans] {
        absl::StatusOr<RestoredPlans> chosen = plans;
        if (plans.present == nullptr)
          chosen = RestorePlans(*job, options_.planner);
        if (chosen.ok() && (!job->rewound || job->BeginsWithCopies())) {
          auto present = std::make_shared<PlannedJob>(*chosen->present);
          absl::Status begins;
          present->sources.clear();
          if (kept.has_value()) {
            present->first_step = kept->step;
            present->checkpoint.clear();
            // What step 0 begins with is made again.
            if (kept->step > 0) present->sources = sources;
          } else {
            begins = ChooseRecovery(job->id, job->first_step,
                                    job->steps_committed(), present.get());
          }
          if (begins.ok()) {
            chosen->present = std::move(present);
          } else {
            chosen = begins;
          }
        }
        Post([this, job, chosen = std::move(chosen)] {
          OnStateChosen(job->id, job->recoveries.size(), chosen);
        });
      });
}

void Controller::OnStateChosen(const std::string& job_id, size_t attempt,
                               const absl::StatusOr<RestoredPlans>& chosen) {
  // It may have been cancelled meanwhile.
  auto it = recoveries_.find(job_id);
  if (!stopped_.ok() || it == recoveries_.end()) return;
  const JobRecord* job = state_.FindJob(job_id);
  if (job->recoveries.size() != attempt) return;
  if (!chosen.ok()) {
    return GiveUp(job_id, std::string(chosen.status().message()));
  }
  if (!AllKept(*chosen->present)) return ChooseState(job_id);
  it->second.plans = *chosen;
  it->second.give_up = Now() + options_.recovery_wait;
  const PlannedJob& begins = *chosen->present;
  if (!job->rewound || job->begin_step != begins.first_step ||
      job->begin_checkpoint != begins.checkpoint) {
    JobRewound event;
    event.job_id = job_id;
    event.step = begins.first_step;
    event.checkpoint = begins.checkpoint;
    LogInfo(absl::StrCat("goes on with step ", event.step, " of ",
                         job->steps_committed(), " committed ones",
                         begins.sources.empty() ? "" : ", from copies"),
            JobFields(job_id));
    if (!Commit(std::move(event))) return;
    SC_FAILPOINT("coordinator.rewound");
  }
  Schedule();
}

void Controller::ForgetKeeper(const std::string& worker) {
  if (kept_.erase(worker) == 0) return;
  std::vector<std::string> jobs;
  for (const auto& [job_id, recovery] : recoveries_) {
    if (recovery.is_ready() && !AllKept(*recovery.plans.present)) {
      jobs.push_back(job_id);
    }
  }
  for (const std::string& job_id : jobs) ChooseState(job_id);
}

void Controller::DropCopies(const std::string& job_id, bool of_its_workers) {
  v1::CoordinatorMessage message;
  message.mutable_drop_states()->set_job_id(job_id);
  for (auto it = kept_.begin(); it != kept_.end();) {
    if (it->second.job_id() != job_id) {
      ++it;
      continue;
    }
    const bool its_own = state_.FindWorker(it->first)->job_id == job_id;
    if (of_its_workers || !its_own) SendTo(it->first, message, Epoch());
    it = kept_.erase(it);
  }
}

void Controller::DropStaleCopies(const std::string& worker) {
  auto it = kept_.find(worker);
  if (it == kept_.end()) return;
  const std::string job_id = it->second.job_id();
  const JobRecord* job = state_.FindJob(job_id);
  const bool needed =
      job != nullptr && (job->state == JobState::kRecovering ||
                         job->state == JobState::kPlacing ||
                         state_.FindWorker(worker)->job_id == job_id);
  if (needed) return;
  v1::CoordinatorMessage message;
  message.mutable_drop_states()->set_job_id(job_id);
  SendTo(worker, std::move(message), Epoch());
  kept_.erase(worker);
}

std::vector<std::string> Controller::WaitingJobs() const {
  std::vector<std::string> waiting;
  for (const auto& [job_id, recovery] : recoveries_) waiting.push_back(job_id);
  const std::vector<std::string>& queue = state_.queue();
  waiting.insert(waiting.end(), queue.begin(), queue.end());
  return waiting;
}

void Controller::CheckRecoveries() {
  std::vector<std::string> overdue;
  std::vector<std::string> postponed;
  for (const auto& [job_id, recovery] : recoveries_) {
    if (Now() >= recovery.give_up) overdue.push_back(job_id);
    if (recovery.postponed && away_.empty()) postponed.push_back(job_id);
  }
  for (const std::string& job_id : postponed) ChooseState(job_id);
  for (const std::string& job_id : overdue) {
    const std::string waited = absl::FormatDuration(options_.recovery_wait);
    GiveUp(job_id, absl::StrCat("no worker took the place of the lost one "
                                "within ",
                                waited, "; start one, or keep a spare"));
  }
}

void Controller::GiveUp(const std::string& job_id, const std::string& why) {
  recoveries_.erase(job_id);
  DropCopies(job_id);
  const RecoveryRecord& last = state_.FindJob(job_id)->recoveries.back();
  JobFailing event;
  event.job_id = job_id;
  event.cause = last.cause;
  event.victims = last.victims;
  event.reason = absl::StrCat(DescribeCause(last.cause), "; ", why);
  LogError(absl::StrCat("failed: ", event.reason), JobFields(job_id));
  if (!Commit(std::move(event)) || !Commit(JobFailed{job_id})) return;
  Schedule();
}

void Controller::TakeOverRecovery(const JobRecord& job) {
  recoveries_[job.id];
  // Its workers have to come back before they can let go.
  return job.rewound ? ChooseState(job.id) : TakeOverRun(job);
}

}  // namespace stagecoach::coordinator
