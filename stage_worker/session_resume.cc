// Streams that end and begin anew while the placement goes on.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "stage_worker/session.h"

namespace stagecoach::worker {
namespace {

v1::PlacementState ToProto(SessionState state) {
  switch (state) {
    case SessionState::kIdle:
      return v1::PLACEMENT_STATE_NOTHING;
    case SessionState::kProfiling:
      return v1::PLACEMENT_STATE_PROFILING;
    case SessionState::kProfiled:
      return v1::PLACEMENT_STATE_PROFILED;
    case SessionState::kBuilding:
      return v1::PLACEMENT_STATE_BUILDING;
    case SessionState::kBuilt:
      return v1::PLACEMENT_STATE_BUILT;
    case SessionState::kConnecting:
      return v1::PLACEMENT_STATE_CONNECTING;
    case SessionState::kReady:
      return v1::PLACEMENT_STATE_READY;
    case SessionState::kStepping:
      return v1::PLACEMENT_STATE_STEPPING;
    case SessionState::kPrepared:
      return v1::PLACEMENT_STATE_PREPARED;
    case SessionState::kFinishing:
      return v1::PLACEMENT_STATE_FINISHING;
    case SessionState::kFailed:
      return v1::PLACEMENT_STATE_FAILED;
    case SessionState::kReleasing:
      return v1::PLACEMENT_STATE_RELEASING;
  }
  return v1::PLACEMENT_STATE_UNSPECIFIED;
}

}  // namespace

void Session::OnConnected() {
  registration_due_ = true;
  welcomed_ = false;
  Register();
}

void Session::Register() {
  if (!registration_due_) return;
  // A coordinator that does not want the placement would refuse again, or place
  // a job where there is no room yet.
  if (disowned_ && state_ != SessionState::kIdle) return;
  disowned_ = false;
  registration_due_ = false;
  v1::WorkerMessage message;
  v1::Register* registration = message.mutable_register_();
  *registration = options_.registration;
  if (state_ != SessionState::kIdle) {
    registration->set_holds_job_id(held_.job_id);
    registration->set_holds_epoch(held_.epoch.value());
  }
  *registration->mutable_kept_states() = ListCopies();
  registration->set_draining(draining_);
  Send(std::move(message));
  SC_FAILPOINT("worker.register");
}

void Session::OnDisconnected(const absl::Status& status) {
  registration_due_ = false;
  welcomed_ = false;
  if (!absl::IsAborted(status)) {
    if (state_ != SessionState::kIdle) {
      LogWarning(
          absl::StrCat("job ", held_.job_id,
                       " goes on without its coordinator: ", status.message()));
    }
    return;
  }
  disowned_ = true;
  OnAbort(
      absl::StrCat("the coordinator ended the session: ", status.message()));
}

void Session::OnWelcome(const v1::Welcome& welcome) {
  // Another life of the coordinator has no logs.
  if (options_.logs != nullptr) {
    options_.logs->Restart(/*from_the_start=*/Term(welcome.term()) != term_);
  }
  term_ = Term(welcome.term());
  welcomed_ = true;
  // Epochs are counted by the coordinator, and one without a journal starts
  // afresh.
  if (state_ == SessionState::kIdle) last_epoch_ = Epoch();
  options_.on_welcome(welcome.heartbeat_milliseconds());
  LogInfo(
      absl::StrCat("registered with the coordinator, term ", welcome.term()));
  if (welcome.epoch() != 0) Resume(welcome);
}

void Session::Resume(const v1::Welcome& welcome) {
  v1::WorkerMessage message;
  v1::Resumed* resumed = message.mutable_resumed();
  if (held_.epoch == Epoch(welcome.epoch()) &&
      held_.job_id == welcome.job_id()) {
    ForgetSteps(welcome.recorded_steps());
    for (const v1::KeptStep& kept : held_.kept_steps) {
      v1::WorkerMessage step;
      *step.mutable_kept_step() = kept;
      Send(std::move(step));
    }
    *resumed = held_.answers;
    resumed->set_state(ToProto(state_));
  } else if (state_ == SessionState::kIdle) {
    // Assign was lost on its way.
    held_ = Held();
    held_.job_id = welcome.job_id();
    held_.epoch = Epoch(welcome.epoch());
    resumed->set_state(v1::PLACEMENT_STATE_NOTHING);
  } else {
    return OnAbort("the coordinator counts on another placement");
  }
  resumed->set_job_id(welcome.job_id());
  LogInfo(absl::StrCat("goes on with job ", welcome.job_id(), ": ",
                       SessionStateName(state_), ", ",
                       resumed->committed_steps(), " steps committed, ",
                       held_.kept_steps.size(), " told again"));
  Send(std::move(message));
}

void Session::KeepPrepared(const v1::Prepared& prepared) {
  held_.kept_steps.emplace_back();
  *held_.kept_steps.back().mutable_prepared() = prepared;
}

void Session::KeepOutcome(const v1::StepCommit& commit) {
  held_.answers.set_committed_steps(commit.step() + 1);
  *held_.kept_steps.back().mutable_outcome() = commit;
}

void Session::ForgetSteps(int64_t recorded_steps) {
  std::deque<v1::KeptStep>& kept = held_.kept_steps;
  while (!kept.empty() && kept.front().has_outcome() &&
         kept.front().prepared().step() < recorded_steps) {
    kept.pop_front();
  }
}

void Session::SendLeaving(const std::string& reason) {
  v1::WorkerMessage message;
  message.mutable_leaving()->set_reason(reason);
  Send(std::move(message));
}

}  // namespace stagecoach::worker
