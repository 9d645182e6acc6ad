#include "client/follow.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status.h"
#include "client/output/job_output.h"

namespace stagecoach::client {
namespace {

// How long a cancelled job may take to end.
constexpr absl::Duration kCancelPatience = absl::Seconds(30);
// How long the coordinator may take to end a job that lost a worker: it names
// the cause better than we can.
constexpr absl::Duration kVerdictPatience = absl::Seconds(15);

absl::Time Now() { return Clock::Real()->Now(); }

// Whether the job may hold workers.
bool IsPlaced(v1::JobState state) {
  return state != v1::JOB_STATE_UNSPECIFIED && state != v1::JOB_STATE_QUEUED &&
         state != v1::JOB_STATE_PLANNING;
}

}  // namespace

absl::Status Follower::Follow(const std::string& job_id) {
  deadline_ = Now() + options_.timeout;
  while (true) {
    const absl::Status status = client_->Watch(
        job_id, deadline_, interrupt_, &view_,
        [this](const v1::Job& event) { progress_->Update(event); });
    if (view_.finished() || !absl::IsCancelled(status)) {
      progress_->Finish();
      return Conclude(job_id, status);
    }
    SC_RETURN_IF_ERROR(HandleInterrupt(job_id));
  }
}

absl::Status Follower::Conclude(const std::string& job_id,
                                const absl::Status& status) {
  if (view_.finished()) return absl::OkStatus();
  if (child_ended_.has_value()) {
    const std::string what = ToString(*child_ended_);
    // Best effort: the cluster is about to be stopped.
    if (!child_ended_->is_coordinator) {
      client_->Cancel(job_id, what).status().IgnoreError();
    }
    return absl::AbortedError(what);
  }
  if (!absl::IsDeadlineExceeded(status)) return status;
  return absl::DeadlineExceededError(absl::StrCat(
      "job ", job_id, " is still ", JobStateName(view_.job().state()),
      cancelling_ ? " though it was cancelled " : " after ",
      absl::FormatDuration(cancelling_ ? kCancelPatience : options_.timeout),
      cancelling_ ? " ago" : ""));
}

absl::Status Follower::HandleInterrupt(const std::string& job_id) {
  if (interrupt_->Take(Interrupt::Reason::kChildEnded)) HandleChildExit();
  if (!interrupt_->Take(Interrupt::Reason::kUser) || cancelling_) {
    return absl::OkStatus();
  }
  progress_->Finish();
  if (!options_.cancel_on_interrupt) {
    return absl::CancelledError(
        absl::StrCat("left job ", job_id, ", which goes on; `stagecoach job ",
                     "cancel ", job_id, "` ends it"));
  }
  cancelling_ = true;
  deadline_ = std::min(deadline_, Now() + kCancelPatience);
  const absl::Status status =
      client_->Cancel(job_id, "interrupted by the user").status();
  // It may have ended by itself in the meantime.
  return absl::IsFailedPrecondition(status) ? absl::OkStatus() : status;
}

void Follower::HandleChildExit() {
  if (options_.cluster == nullptr || child_ended_.has_value()) return;
  for (const ChildExit& exit : options_.cluster->Exits()) {
    if (!child_ended_.has_value() && !Restart(exit)) child_ended_ = exit;
  }
  if (!child_ended_.has_value()) return;
  const bool verdict_to_come =
      !child_ended_->is_coordinator && IsPlaced(view_.job().state());
  deadline_ = std::min(
      deadline_,
      Now() + (verdict_to_come ? kVerdictPatience : absl::ZeroDuration()));
}

bool Follower::Restart(const ChildExit& exit) {
  // One that ended of itself before it had work (another version, a flag that
  // it does not know) would do so again.
  const bool by_signal = exit.exit_code > 128;
  if (exit.is_coordinator || restarts_ >= options_.restarts || cancelling_ ||
      (!by_signal && !IsPlaced(view_.job().state()))) {
    return false;
  }
  ++restarts_;
  progress_->Say(absl::StrCat(ToString(exit), "; started again (", restarts_,
                              " of at most ", options_.restarts, ")"));
  return options_.cluster->RestartWorker(exit.name).ok();
}

}  // namespace stagecoach::client
