#include "stage_worker/session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "stage_worker/session_fields.h"
#include "stage_worker/session_proto.h"

namespace stagecoach::worker {

Session::Session(const SessionOptions& options) : options_(options) {}

void Session::Transition(SessionState to) {
  if (!MayFollow(state_, to)) {
    LogError(absl::StrCat("session: no way from ", SessionStateName(state_),
                          " to ", SessionStateName(to)));
    return;
  }
  state_ = to;
}

bool Session::Expect(SessionState state, const char* message) {
  if (state_ == state) return true;
  // A message that crossed our own failure report, or one of a coordinator that
  // is wrong: neither may change anything.
  LogWarning(
      absl::StrCat(message, " ignored in state ", SessionStateName(state_)));
  return false;
}

bool Session::IsCurrent(Epoch epoch) const {
  return state_ != SessionState::kIdle && held_.epoch == epoch;
}

void Session::Send(v1::WorkerMessage message) {
  // Before that the coordinator would take it for part of an earlier session.
  // What counts is told by Resume.
  if (!welcomed_ && !message.has_register_()) return;
  v1::Fence* fence = message.mutable_fence();
  fence->set_term(term_.value());
  fence->set_incarnation(options_.incarnation.value());
  fence->set_epoch(held_.epoch.value());
  options_.send(std::move(message));
}

bool Session::PassesFence(const v1::CoordinatorMessage& message) {
  const v1::Fence& fence = message.fence();
  if (Term(fence.term()) < term_) {
    ++refused_.old_term;
    return false;
  }
  if (fence.incarnation() != 0 &&
      Incarnation(fence.incarnation()) != options_.incarnation) {
    ++refused_.other_incarnation;
    return false;
  }
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kWelcome:
    case v1::CoordinatorMessage::kMemoryQuery:
    case v1::CoordinatorMessage::kLogAcknowledged:
    case v1::CoordinatorMessage::kDropStates:
    case v1::CoordinatorMessage::kShutdown:
      return true;
    case v1::CoordinatorMessage::kProfile:
      if (Epoch(fence.epoch()) > last_epoch_) return true;
      break;
    case v1::CoordinatorMessage::kAssign:
      if (Epoch(fence.epoch()) > last_epoch_) return true;
      if (state_ == SessionState::kProfiled &&
          IsCurrent(Epoch(fence.epoch()))) {
        return true;
      }
      break;
    default:
      if (IsCurrent(Epoch(fence.epoch()))) return true;
  }
  ++refused_.other_epoch;
  return false;
}

void Session::OnMessage(const v1::CoordinatorMessage& message) {
  if (!PassesFence(message)) return;
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kWelcome:
      return OnWelcome(message.welcome());
    case v1::CoordinatorMessage::kProfile:
      return OnProfile(message.profile(), Epoch(message.fence().epoch()));
    case v1::CoordinatorMessage::kAssign:
      return OnAssign(message.assign(), Epoch(message.fence().epoch()));
    case v1::CoordinatorMessage::kConnect:
      return OnConnect();
    case v1::CoordinatorMessage::kReschedule:
      return OnReschedule(message.reschedule());
    case v1::CoordinatorMessage::kStepBegin:
      return OnStepBegin(message.step_begin());
    case v1::CoordinatorMessage::kStepCommit:
      return OnStepCommit(message.step_commit());
    case v1::CoordinatorMessage::kWriteCheckpoint:
      return OnWriteCheckpoint(message.write_checkpoint());
    case v1::CoordinatorMessage::kSealCheckpoint:
      return OnSealCheckpoint(message.seal_checkpoint());
    case v1::CoordinatorMessage::kFinish:
      return OnFinish(message.finish());
    case v1::CoordinatorMessage::kAbort:
      if (!message.abort().keep_states()) DropCopies(message.abort().job_id());
      return OnAbort(message.abort().reason());
    case v1::CoordinatorMessage::kCopyState:
      return OnCopyState(message.copy_state());
    case v1::CoordinatorMessage::kDropStates:
      return DropCopies(message.drop_states().job_id());
    case v1::CoordinatorMessage::kMemoryQuery:
      return OnMemoryQuery(message.memory_query());
    case v1::CoordinatorMessage::kLogAcknowledged:
      return OnLogAcknowledged(message.log_acknowledged());
    case v1::CoordinatorMessage::kShutdown:
      return options_.on_shutdown(message.shutdown().reason());
    case v1::CoordinatorMessage::MESSAGE_NOT_SET:
      LogWarning("empty message from the coordinator");
  }
}

void Session::SendHeartbeat() {
  v1::WorkerMessage message;
  v1::Heartbeat* heartbeat = message.mutable_heartbeat();
  heartbeat->set_sequence(++heartbeats_);
  if (state_ != SessionState::kIdle) {
    heartbeat->set_job_id(held_.job_id);
    if (held_.placement != nullptr) {
      const std::optional<Position> position = held_.placement->position();
      if (position) ToProto(*position, heartbeat->mutable_position());
    }
  }
  Send(std::move(message));
  SendNextLog();
}

void Session::OnLogAcknowledged(const v1::LogAcknowledged& acknowledged) {
  if (options_.logs == nullptr) return;
  options_.logs->Acknowledge(acknowledged.job_id(), acknowledged.next_offset());
  SendNextLog();
}

void Session::SendLog(JobLogs::Chunk chunk) {
  v1::WorkerMessage message;
  message.mutable_log()->set_job_id(chunk.job_id);
  message.mutable_log()->set_offset(chunk.offset);
  message.mutable_log()->set_data(std::move(chunk.data));
  Send(std::move(message));
}

void Session::SendNextLog() {
  if (options_.logs == nullptr) return;
  if (auto chunk = options_.logs->Next(); chunk.has_value()) {
    SendLog(*std::move(chunk));
  }
}

void Session::SendRestOfLog() {
  if (options_.logs == nullptr) return;
  for (JobLogs::Chunk& chunk : options_.logs->Rest(held_.job_id)) {
    SendLog(std::move(chunk));
  }
}

void Session::LogAboutJob(absl::string_view message) const {
  LogInfo(message, FieldsOf(held_.job_id, held_.epoch));
}

}  // namespace stagecoach::worker
