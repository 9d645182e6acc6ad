// Placements that end before their time: by a failure here, at the
// coordinator's word, with the process.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "stage_worker/memory_report.h"
#include "stage_worker/session.h"
#include "stage_worker/session_fields.h"
#include "stage_worker/session_proto.h"

namespace stagecoach::worker {
namespace {

v1::FailureKind KindOf(const absl::Status& status,
                       const std::string& blamed_worker) {
  if (!blamed_worker.empty()) return v1::FAILURE_KIND_WORKER_LOST;
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return v1::FAILURE_KIND_OUT_OF_MEMORY;
    case absl::StatusCode::kInvalidArgument:
      return v1::FAILURE_KIND_INVALID;
    // A peer that cannot be reached, though no edge says whose end was seen.
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return v1::FAILURE_KIND_WORKER_LOST;
    default:
      return v1::FAILURE_KIND_INTERNAL;
  }
}

}  // namespace

void Session::Fail(const absl::Status& status) {
  if (state_ == SessionState::kIdle || state_ == SessionState::kFailed ||
      state_ == SessionState::kReleasing) {
    return;
  }
  Transition(SessionState::kFailed);
  v1::WorkerMessage message;
  v1::WorkerFailed* failed = message.mutable_failed();
  failed->set_job_id(held_.job_id);
  failed->set_message(std::string(status.message()));
  std::string blamed;
  if (held_.placement != nullptr) {
    blamed = held_.placement->abort_flag().blamed_worker();
    const std::optional<Position> position = held_.placement->position();
    if (position) ToProto(*position, failed->mutable_position());
  }
  failed->set_kind(KindOf(status, blamed));
  failed->set_blamed_worker(blamed);
  LogError(status.message(), FieldsOf(held_.job_id, held_.epoch));
  *held_.answers.mutable_failed() = *failed;
  Send(std::move(message));
  if (held_.checkpoints != nullptr) held_.checkpoints->Cancel();
  CancelCopies();
  if (held_.placement == nullptr) return;
  held_.placement->Abort(status);
  options_.engine->Add([placement = held_.placement] { placement->Stop(); });
}

void Session::OnAbort(const std::string& reason) {
  if (state_ == SessionState::kIdle) return;
  if (!reason.empty()) LogAboutJob(absl::StrCat("aborted: ", reason));
  if (state_ != SessionState::kReleasing) Transition(SessionState::kReleasing);
  options_.directory->Withdraw();
  if (held_.checkpoints != nullptr) held_.checkpoints->Cancel();
  DiscardCheckpoint();
  CancelCopies();
  // OnBuilt or OnProfiled comes back here: a build cannot be interrupted, and a
  // profile only between two actions.
  profile_cancelled_->store(true);
  if (building_) return;
  if (held_.placement == nullptr) return SendReleased(nullptr);
  held_.placement->Abort(absl::CancelledError(
      absl::StrCat("the coordinator ended the job: ", reason)));
  OnEngine<v1::WorkerMemory>(
      [this](Placement& placement) {
        placement.Stop();
        v1::WorkerMemory memory;
        ToProto(options_.worker, placement.Memory(), &memory);
        return memory;
      },
      [this, epoch = held_.epoch](const v1::WorkerMemory& memory) {
        if (!IsCurrent(epoch)) return;
        SendReleased(&memory);
      });
}

void Session::SendReleased(const v1::WorkerMemory* memory) {
  v1::WorkerMessage message;
  v1::Released* released = message.mutable_released();
  released->set_job_id(held_.job_id);
  if (memory != nullptr) *released->mutable_memory() = *memory;
  *released->mutable_kept_states() = ListCopies();
  *held_.answers.mutable_released() = *released;
  LogAboutJob("has let go of everything");
  SendRestOfLog();
  Send(std::move(message));
  options_.engine->Add([placement = held_.placement] {});
  held_.placement.reset();
  BecomeIdle();
}

void Session::BecomeIdle() {
  Transition(SessionState::kIdle);
  if (draining_) return options_.on_shutdown("drained");
  Register();
}

void Session::Drain(const std::string& reason) {
  if (draining_) return;
  draining_ = true;
  if (state_ == SessionState::kIdle) return options_.on_shutdown(reason);
  LogAboutJob(absl::StrCat("drains: ", reason));
  v1::WorkerMessage message;
  message.mutable_draining()->set_reason(reason);
  Send(std::move(message));
}

void Session::Stop(std::function<void()> done) {
  profile_cancelled_->store(true);
  if (held_.checkpoints != nullptr) held_.checkpoints->Cancel();
  CancelCopies();
  if (held_.placement != nullptr) {
    held_.placement->Abort(absl::CancelledError("the worker is stopping"));
  }
  options_.engine->Add([placement = std::move(held_.placement),
                        done = std::move(done)]() mutable {
    if (placement != nullptr) placement->Stop();
    placement.reset();
    done();
  });
}

}  // namespace stagecoach::worker
