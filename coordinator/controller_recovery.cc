// Jobs that survive a failure: their workers let go, a state to go on with is
// chosen, and they are placed again.
#include <memory>
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
  LogWarning(absl::StrCat("recovers from a failure: ", reason),
             JobFields(job_id));
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

void Controller::ChooseState(const std::string& job_id) {
  // A copy, for the other thread.
  auto job = std::make_shared<const JobRecord>(*state_.FindJob(job_id));
  planning_->Add([this, job, plans = recoveries_.at(job_id).plans] {
    absl::StatusOr<RestoredPlans> chosen = plans;
    if (plans.present == nullptr) chosen = RestorePlans(*job, options_.planner);
    if (chosen.ok() && !job->rewound) {
      auto present = std::make_shared<PlannedJob>(*chosen->present);
      const absl::Status begins = ChooseRecovery(
          job->id, job->first_step, job->steps_committed(), present.get());
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
  it->second.plans = *chosen;
  it->second.give_up = Now() + options_.recovery_wait;
  if (!job->rewound) {
    JobRewound event;
    event.job_id = job_id;
    event.step = chosen->present->first_step;
    event.checkpoint = chosen->present->checkpoint;
    LogInfo(absl::StrCat("goes on with step ", event.step, " of ",
                         job->steps_committed(), " committed ones"),
            JobFields(job_id));
    if (!Commit(std::move(event))) return;
    SC_FAILPOINT("coordinator.rewound");
  }
  Schedule();
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
  for (const auto& [job_id, recovery] : recoveries_) {
    if (Now() >= recovery.give_up) overdue.push_back(job_id);
  }
  for (const std::string& job_id : overdue) {
    const std::string waited = absl::FormatDuration(options_.recovery_wait);
    GiveUp(job_id, absl::StrCat("no worker took the place of the lost one "
                                "within ",
                                waited, "; start one, or keep a spare"));
  }
}

void Controller::GiveUp(const std::string& job_id, const std::string& why) {
  recoveries_.erase(job_id);
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
