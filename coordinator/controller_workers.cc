// Sessions: who is registered, who is alive, and which messages count.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/version.h"
#include "coordinator/controller.h"
#include "coordinator/log_fields.h"
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

bool SamePlace(const std::optional<Position>& a,
               const std::optional<Position>& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  return a->step == b->step && a->action == b->action &&
         a->waiting_for == b->waiting_for;
}

absl::Status UnknownPlacement(const v1::Register& registration) {
  return absl::AbortedError(absl::StrCat(
      "this coordinator does not count on worker ", registration.worker(),
      " for ", registration.holds_job_id(), ", epoch ",
      registration.holds_epoch(), "; let go of it and register again"));
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
      return memory_.OnReport(session.worker, message.memory_report());
    case v1::WorkerMessage::kLog:
      return HandleLog(session, message.log());
    case v1::WorkerMessage::kResumed:
      return HandleResumed(session, message);
    case v1::WorkerMessage::kDraining: {
      // A copy: the session may go with it.
      const std::string worker = session.worker;
      DrainWorker(worker, message.draining().reason());
      return Schedule();
    }
    case v1::WorkerMessage::kLeaving:
      LoseWorker(session.worker, absl::StrCat("its process was stopped: ",
                                              message.leaving().reason()));
      return Schedule();
    case v1::WorkerMessage::MESSAGE_NOT_SET:
      LogWarning("a message of a kind that this version does not know",
                 WorkerFields(session.worker, ""));
      return;
    default:
      session.moved = Now();
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
  const std::string& name = registration.worker();
  const WorkerRecord* known = state_.FindWorker(name);
  if (known != nullptr && !known->dead) {
    if (known->incarnation == incarnation) {
      return HandleReturn(session, registration);
    }
    if (SessionOf(name) == nullptr) {
      LoseWorker(name, absl::StrCat("its session ended, and process ",
                                    registration.process_id(), " on ",
                                    registration.host(), " has its name now"));
    }
    if (!stopped_.ok()) return;
  }
  known = state_.FindWorker(name);
  if (known != nullptr && !known->dead) {
    return RefuseSession(
        session.link.get(),
        absl::AlreadyExistsError(
            absl::StrCat("worker ", name, " is registered by process ",
                         known->process_id, " on ", known->host,
                         "; give this one another name, or stop that one")));
  }
  if (registration.holds_epoch() != 0) {
    return RefuseSession(session.link.get(), UnknownPlacement(registration));
  }
  WorkerRegistered event;
  event.worker = name;
  event.incarnation = incarnation;
  event.host = registration.host();
  event.process_id = registration.process_id();
  event.device = registration.device();
  event.version = registration.version().version();
  event.torch_version = registration.torch_version();
  event.peer_address = registration.peer_address();
  if (const absl::Status recorded = TryCommit(std::move(event));
      !recorded.ok()) {
    return RefuseSession(session.link.get(),
                         absl::UnavailableError(recorded.message()));
  }
  SC_FAILPOINT("coordinator.register");
  OpenSession(session, registration, incarnation);
  LogInfo(absl::StrCat("registered, process ", registration.process_id(),
                       " on ", registration.host()),
          WorkerFields(session.worker, ""));
  SendWelcome(session.worker);
  Schedule();
}

void Controller::HandleReturn(Session& session,
                              const v1::Register& registration) {
  const WorkerRecord& known = *state_.FindWorker(registration.worker());
  const JobRecord* job = state_.FindJob(known.job_id);
  const Epoch holds(registration.holds_epoch());
  if (holds != Epoch() && (job == nullptr || job->epoch != holds)) {
    return RefuseSession(session.link.get(), UnknownPlacement(registration));
  }
  if (const Session* old = SessionOf(known.name); old != nullptr) {
    old->link->Close(
        absl::UnavailableError("the worker has opened another session"));
    memory_.OnGone(known.name);
    sessions_.erase(old->link.get());
  }
  away_.erase(known.name);
  OpenSession(session, registration, known.incarnation);
  LogInfo(
      absl::StrCat("came back, process ", known.process_id, " on ", known.host),
      WorkerFields(known.name, known.job_id));
  if (auto run = runs_.find(known.job_id); run != runs_.end()) {
    run->second.run.OnAway(job->IndexOf(known.name));
    run->second.placed = Now();
  }
  SendWelcome(session.worker);
  NoteHeardOf(session);
}

void Controller::OpenSession(Session& session, const v1::Register& registration,
                             Incarnation incarnation) {
  session.worker = registration.worker();
  session.incarnation = incarnation;
  session.last_heard = Now();
  session.moved = Now();
  session.paths = registration.paths();
  links_[session.worker] = session.link.get();
  if (registration.draining()) draining_.insert(session.worker);
  NoteKept(session.worker, registration.kept_states());
}

void Controller::NoteKept(const std::string& worker,
                          const v1::KeptStates& kept) {
  // What a worker has that is about to end is of no use.
  if (kept.states_size() > 0 && draining_.count(worker) == 0) {
    kept_[worker] = kept;
  } else {
    kept_.erase(worker);
  }
}

void Controller::SendWelcome(const std::string& worker) {
  v1::CoordinatorMessage message;
  v1::Welcome* welcome = message.mutable_welcome();
  welcome->set_term(options_.term.value());
  welcome->set_heartbeat_milliseconds(
      absl::ToInt64Milliseconds(options_.heartbeat));
  if (const Run* run = RunOf(worker); run != nullptr) {
    welcome->set_job_id(run->run.job_id());
    welcome->set_epoch(run->run.epoch().value());
    welcome->set_recorded_steps(run->recorded_steps);
  }
  SendTo(worker, std::move(message), Epoch());
  DropStaleCopies(worker);
}

void Controller::HandleResumed(const Session& session,
                               const v1::WorkerMessage& message) {
  const std::string worker = session.worker;
  FindSources(worker);
  HandleAnswer(session, message);
  const Session* still = SessionOf(worker);
  if (still == nullptr || !message.resumed().has_failed()) return;
  HandleWorkerFailed(*still, message.resumed().failed());
}

// With every worker that comes back there may be more copies.
void Controller::FindSources(const std::string& worker) {
  Run* run = RunOf(worker);
  if (run == nullptr || !run->run.NeedsSources()) return;
  const JobRecord& job = *state_.FindJob(run->run.job_id());
  const std::optional<KeptChoice> kept = ChooseKept(
      kept_, job.id, job.stages.size(), job.begin_step, job.begin_step);
  if (kept.has_value()) run->run.SetSources(SourcesOf(*kept));
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
    case v1::WorkerMessage::kDraining:
    case v1::WorkerMessage::kLeaving:
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
  const std::optional<Position> before = std::exchange(session.position, {});
  if (current && message.heartbeat().has_position()) {
    session.position = FromProto(message.heartbeat().position());
  }
  if (!SamePlace(before, session.position)) session.moved = Now();
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
  if (report.kind == FailureKind::kOutOfMemory) {
    return ReportOutOfMemory(job_id, std::move(report));
  }
  ReportFailure(job_id, std::move(report));
}

void Controller::HandleAnswer(const Session& session,
                              const v1::WorkerMessage& message) {
  if (message.has_prepared()) SC_FAILPOINT("coordinator.prepared");
  Run* run = RunOf(session.worker);
  if (run == nullptr) return;
  if (message.has_released()) {
    NoteKept(session.worker, message.released().kept_states());
  }
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
  // Of a job that is forgotten: nobody can ask for it.
  acknowledged->set_next_offset(
      state_.FindJob(chunk.job_id()) == nullptr
          ? chunk.offset() + static_cast<int64_t>(chunk.data().size())
          : logs_.Take(chunk.job_id(), session.worker, session.incarnation,
                       chunk.offset(), chunk.data()));
  SendTo(session.worker, std::move(answer), Epoch());
}

std::optional<Position> Controller::PositionOf(
    const std::string& worker) const {
  if (auto away = away_.find(worker); away != away_.end()) {
    return away->second.position;
  }
  auto link = links_.find(worker);
  if (link == links_.end()) return std::nullopt;
  return sessions_.at(link->second).position;
}

void Controller::MissWorker(const std::string& worker) {
  // The session that `worker` may belong to goes away.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::string name = worker;
  const std::string job_id = state_.FindWorker(name)->job_id;
  const std::string reason =
      "its session ended; the process is gone, or its connection broke";
  auto node = sessions_.extract(links_.at(name));
  const Session& session = node.mapped();
  Away away;
  away.lost_at = Now() + options_.reconnect_wait;
  away.position = session.position;
  away.reason = reason;
  away_[name] = std::move(away);
  links_.erase(name);
  session.link->Close(absl::UnavailableError("the session has ended"));
  memory_.OnGone(name);
  LogWarning(absl::StrCat(reason, "; it may come back"),
             WorkerFields(name, job_id));
  if (!Commit(WorkerSuspected{name, reason})) return;
  if (auto run = runs_.find(job_id); run != runs_.end()) {
    run->second.run.OnAway(state_.FindJob(job_id)->IndexOf(name));
    CheckBlame(job_id);
  }
  CheckSilence();
}

void Controller::LoseWorker(const std::string& worker,
                            const std::string& reason) {
  // The session that `worker` may belong to goes away.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::string name = worker;
  const std::string job_id = state_.FindWorker(name)->job_id;
  const std::optional<Position> position = PositionOf(name);
  if (const absl::Status status = TryCommit(WorkerLost{name, reason});
      !status.ok()) {
    // Found lost again with the next tick.
    LogWarning(status.message(), WorkerFields(name, job_id));
    return;
  }
  LogWarning(absl::StrCat("lost: ", reason), WorkerFields(name, job_id));
  away_.erase(name);
  draining_.erase(name);
  if (const Session* session = SessionOf(name); session != nullptr) {
    const std::shared_ptr<WorkerLink> link = session->link;
    sessions_.erase(link.get());
    links_.erase(name);
    link->Close(absl::AbortedError(
        absl::StrCat("the coordinator counts this worker as lost: ", reason,
                     "; let go of everything and register again")));
    memory_.OnGone(name);
  }
  ForgetKeeper(name);
  if (job_id.empty() || runs_.count(job_id) == 0) return;
  FailureReport report;
  report.worker = state_.FindJob(job_id)->IndexOf(name);
  report.lost = true;
  report.kind = FailureKind::kWorkerLost;
  report.message = absl::StrCat("the worker was lost: ", reason);
  report.position = position;
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
      if (!Commit(WorkerSuspected{session.worker, "misses heartbeats"})) {
        return;
      }
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
  std::vector<std::pair<std::string, std::string>> gone;
  for (const auto& [worker, away] : away_) {
    if (Now() >= away.lost_at) gone.emplace_back(worker, away.reason);
  }
  for (const auto& [worker, reason] : gone) {
    if (away_.count(worker) > 0) LoseWorker(worker, reason);
  }
  if (!lost.empty() || !gone.empty()) Schedule();
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
  Session* session = SessionOf(worker);
  if (session == nullptr) return;
  if (message.has_step_begin() || message.has_step_commit()) {
    session->moved = Now();
  }
  const absl::Status status = session->link->Send(
      Fenced(std::move(message), epoch, session->incarnation));
  // Its end is reported like that of any other session.
  if (!status.ok()) session->link->Close(status);
}

}  // namespace stagecoach::coordinator
