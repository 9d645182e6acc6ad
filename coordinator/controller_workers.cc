// Sessions: who is registered, who is alive, and which messages count.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/version.h"
#include "coordinator/controller.h"
#include "coordinator/publish.h"

namespace stagecoach::coordinator {
namespace {

constexpr size_t kMaxNameBytes = 128;

// A name is a key, a column of tables and part of messages.
bool IsGoodName(const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  for (const char c : name) {
    if (c <= ' ' || c > '~') return false;
  }
  return true;
}

absl::Status CheckRegistration(const v1::Register& registration,
                               Incarnation incarnation) {
  const v1::ClientVersion& version = registration.version();
  if (version.protocol() != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("version skew: worker ", registration.worker(), " is ",
                     version.version(), " (protocol ", version.protocol(),
                     "), the coordinator ", kVersion, " (protocol ",
                     kProtocolVersion, "); use the same version of both"));
  }
  if (!IsGoodName(registration.worker())) {
    return absl::InvalidArgumentError(
        "a worker needs a name of 1 to 128 printable characters without "
        "spaces");
  }
  if (incarnation == Incarnation()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", registration.worker(), " registers without incarnation"));
  }
  return absl::OkStatus();
}

LogFields WorkerFields(const std::string& worker, const std::string& job) {
  LogFields fields;
  fields.worker = worker;
  fields.job = job;
  return fields;
}

}  // namespace

Controller::Session* Controller::SessionOf(const std::string& worker) {
  auto it = links_.find(worker);
  return it == links_.end() ? nullptr : &sessions_.at(it->second);
}

Controller::Run* Controller::RunOf(const std::string& worker) {
  const WorkerRecord* record = state_.FindWorker(worker);
  if (record == nullptr || record->job_id.empty()) return nullptr;
  auto it = runs_.find(record->job_id);
  return it == runs_.end() ? nullptr : &it->second;
}

void Controller::HandleMessage(const WorkerLink* link,
                               const v1::WorkerMessage& message) {
  if (!stopped_.ok()) return;
  auto it = sessions_.find(link);
  if (it == sessions_.end()) {
    ++refused_.unregistered;
    return;
  }
  Session& session = it->second;
  if (message.has_register_()) return HandleRegister(session, message);
  if (session.worker.empty()) {
    // The rest of an earlier session of the same process.
    ++refused_.unregistered;
    return;
  }
  if (!PassesFence(session, message)) return;
  NoteHeardOf(session);
  switch (message.message_case()) {
    case v1::WorkerMessage::kHeartbeat:
      return HandleHeartbeat(session, message);
    case v1::WorkerMessage::kFailed:
      return HandleWorkerFailed(session, message.failed());
    case v1::WorkerMessage::kMemoryReport:
      return OnMemoryReport(session.worker, message.memory_report());
    case v1::WorkerMessage::kLog:
      return HandleLog(session, message.log());
    case v1::WorkerMessage::MESSAGE_NOT_SET:
      LogWarning("a message of a kind that this version does not know",
                 WorkerFields(session.worker, ""));
      return;
    default:
      return HandleAnswer(session, message);
  }
}

void Controller::RefuseSession(const WorkerLink* link,
                               const absl::Status& status) {
  LogWarning(absl::StrCat("registration refused: ", status.message()));
  auto it = sessions_.find(link);
  it->second.link->Close(status);
  sessions_.erase(it);
}

void Controller::HandleRegister(Session& session,
                                const v1::WorkerMessage& message) {
  const v1::Register& registration = message.register_();
  const Incarnation incarnation(message.fence().incarnation());
  if (!session.worker.empty()) {
    LoseWorker(session.worker, "it registered twice in one session");
    return Schedule();
  }
  const absl::Status status = CheckRegistration(registration, incarnation);
  if (!status.ok()) return RefuseSession(session.link.get(), status);
  const WorkerRecord* known = state_.FindWorker(registration.worker());
  if (known != nullptr && !known->dead) {
    return RefuseSession(
        session.link.get(),
        absl::AlreadyExistsError(absl::StrCat(
            "worker ", registration.worker(), " is registered by process ",
            known->process_id, " on ", known->host,
            "; give this one another name, or stop that one")));
  }
  WorkerRegistered event;
  event.worker = registration.worker();
  event.incarnation = incarnation;
  event.host = registration.host();
  event.process_id = registration.process_id();
  event.device = registration.device();
  event.version = registration.version().version();
  event.torch_version = registration.torch_version();
  event.peer_address = registration.peer_address();
  if (!Commit(std::move(event))) return;
  session.worker = registration.worker();
  session.incarnation = incarnation;
  session.last_heard = Now();
  links_[session.worker] = session.link.get();
  LogInfo(absl::StrCat("registered, process ", registration.process_id(),
                       " on ", registration.host()),
          WorkerFields(session.worker, ""));
  v1::CoordinatorMessage welcome;
  welcome.mutable_welcome()->set_term(options_.term.value());
  welcome.mutable_welcome()->set_heartbeat_milliseconds(
      absl::ToInt64Milliseconds(options_.heartbeat));
  SendTo(session.worker, std::move(welcome), Epoch());
  Schedule();
}

bool Controller::PassesFence(const Session& session,
                             const v1::WorkerMessage& message) {
  const v1::Fence& fence = message.fence();
  if (Term(fence.term()) != options_.term) {
    ++refused_.stale_term;
    return false;
  }
  if (Incarnation(fence.incarnation()) != session.incarnation) {
    ++refused_.stale_incarnation;
    return false;
  }
  switch (message.message_case()) {
    // About the process, not about a placement.
    case v1::WorkerMessage::kHeartbeat:
    case v1::WorkerMessage::kMemoryReport:
    // Also of a job that it has let go: the rest of a log that did not get
    // through before.
    case v1::WorkerMessage::kLog:
    case v1::WorkerMessage::MESSAGE_NOT_SET:
      return true;
    default:
      break;
  }
  const Run* run = RunOf(session.worker);
  if (run != nullptr && run->run.epoch() == Epoch(fence.epoch())) return true;
  ++refused_.stale_epoch;
  return false;
}

void Controller::NoteHeardOf(Session& session) {
  session.last_heard = Now();
  const WorkerRecord* record = state_.FindWorker(session.worker);
  if (!record->suspect) return;
  const std::string job_id = record->job_id;
  LogInfo("heard of again", WorkerFields(session.worker, job_id));
  if (!Commit(WorkerAnswered{session.worker})) return;
  if (job_id.empty()) {
    Schedule();
  } else {
    Judge(job_id);
  }
}

void Controller::HandleHeartbeat(Session& session,
                                 const v1::WorkerMessage& message) {
  const Run* run = RunOf(session.worker);
  const bool current = run != nullptr &&
                       run->run.epoch() == Epoch(message.fence().epoch()) &&
                       run->run.job_id() == message.heartbeat().job_id();
  session.position.reset();
  if (current && message.heartbeat().has_position()) {
    session.position = FromProto(message.heartbeat().position());
  }
  if (run == nullptr || current ||
      run->run.phase() == JobRun::Phase::kReleasing ||
      Now() < run->placed + options_.hold_wait) {
    return;
  }
  FailureReport report;
  report.message = "the worker does not hold the job that it was given";
  for (const JobRun::Member& member : run->run.members()) {
    if (member.name == session.worker) break;
    ++report.worker;
  }
  // A copy: the run may end with this.
  const std::string job_id = run->run.job_id();
  ReportFailure(job_id, std::move(report));
}

void Controller::HandleWorkerFailed(const Session& session,
                                    const v1::WorkerFailed& failed) {
  const Run* run = RunOf(session.worker);
  if (run == nullptr) return;
  const std::string job_id = run->run.job_id();
  const JobRecord* job = state_.FindJob(job_id);
  FailureReport report;
  report.worker = job->IndexOf(session.worker);
  report.kind = FromProto(failed.kind());
  report.message = failed.message();
  report.blamed = job->IndexOf(failed.blamed_worker());
  if (failed.has_position()) {
    report.position = FromProto(failed.position());
  }
  LogWarning(absl::StrCat("failed: ", failed.message(),
                          failed.blamed_worker().empty() ? "" : "; blames ",
                          failed.blamed_worker()),
             WorkerFields(session.worker, job_id));
  ReportFailure(job_id, std::move(report));
}

void Controller::HandleAnswer(const Session& session,
                              const v1::WorkerMessage& message) {
  Run* run = RunOf(session.worker);
  if (run == nullptr) return;
  const std::string job_id = run->run.job_id();
  const int index = state_.FindJob(job_id)->IndexOf(session.worker);
  JobRun::Output output = run->run.OnMessage(index, message, Now());
  FailureReport report;
  report.worker = output.culprit;
  report.message = std::string(output.status.message());
  const bool broken = !output.status.ok();
  // First what was legal of it: a worker that let go has let go.
  Perform(job_id, std::move(output));
  if (broken && runs_.count(job_id) > 0) {
    ReportFailure(job_id, std::move(report));
  }
}

void Controller::HandleLog(const Session& session, const v1::LogChunk& chunk) {
  v1::CoordinatorMessage answer;
  v1::LogAcknowledged* acknowledged = answer.mutable_log_acknowledged();
  acknowledged->set_job_id(chunk.job_id());
  // Of a job of an earlier life of the coordinator: nobody can ask for it.
  acknowledged->set_next_offset(
      state_.FindJob(chunk.job_id()) == nullptr
          ? chunk.offset() + static_cast<int64_t>(chunk.data().size())
          : logs_.Take(chunk.job_id(), session.worker, session.incarnation,
                       chunk.offset(), chunk.data()));
  SendTo(session.worker, std::move(answer), Epoch());
}

void Controller::LoseWorker(const std::string& worker,
                            const std::string& reason) {
  const std::string name = worker;  // the session it may belong to goes away
  const std::string job_id = state_.FindWorker(name)->job_id;
  LogWarning(absl::StrCat("lost: ", reason), WorkerFields(name, job_id));
  if (!Commit(WorkerLost{name, reason})) return;
  Session session = std::move(*SessionOf(name));
  sessions_.erase(session.link.get());
  links_.erase(name);
  session.link->Close(absl::AbortedError(
      absl::StrCat("the coordinator counts this worker as lost: ", reason,
                   "; let go of everything and register again")));
  ForgetInMemoryRequests(name);
  if (job_id.empty() || runs_.count(job_id) == 0) return;
  FailureReport report;
  report.worker = state_.FindJob(job_id)->IndexOf(name);
  report.lost = true;
  report.kind = FailureKind::kWorkerLost;
  report.message = absl::StrCat("the worker was lost: ", reason);
  report.position = session.position;
  const int index = report.worker;
  OnWorkerGone(job_id, index, std::move(report));
}

void Controller::CheckSilence() {
  std::vector<std::string> lost;
  std::vector<const WorkerLink*> mute;
  for (auto& [link, session] : sessions_) {
    const absl::Duration silence = Now() - session.last_heard;
    if (session.worker.empty()) {
      if (Now() - session.connected >= options_.register_wait) {
        mute.push_back(link);
      }
    } else if (silence >= options_.dead) {
      lost.push_back(session.worker);
    } else if (silence >= options_.suspect &&
               !state_.FindWorker(session.worker)->suspect) {
      LogWarning("misses heartbeats", WorkerFields(session.worker, ""));
      if (!Commit(WorkerSuspected{session.worker})) return;
    }
  }
  for (const WorkerLink* link : mute) {
    RefuseSession(link, absl::DeadlineExceededError(
                            "nobody registered on this connection"));
  }
  for (const std::string& worker : lost) {
    // Losing one may have ended another, which then is no more.
    if (SessionOf(worker) == nullptr) continue;
    LoseWorker(worker, absl::StrCat("no heartbeat for ",
                                    absl::FormatDuration(options_.dead)));
  }
  if (!lost.empty()) Schedule();
}

v1::CoordinatorMessage Controller::Fenced(v1::CoordinatorMessage message,
                                          Epoch epoch,
                                          Incarnation incarnation) const {
  v1::Fence* fence = message.mutable_fence();
  fence->set_term(options_.term.value());
  fence->set_epoch(epoch.value());
  fence->set_incarnation(incarnation.value());
  return message;
}

void Controller::SendTo(const std::string& worker,
                        v1::CoordinatorMessage message, Epoch epoch) {
  const Session* session = SessionOf(worker);
  if (session == nullptr) return;
  const absl::Status status = session->link->Send(
      Fenced(std::move(message), epoch, session->incarnation));
  // Its end is reported like that of any other session.
  if (!status.ok()) session->link->Close(status);
}

}  // namespace stagecoach::coordinator
