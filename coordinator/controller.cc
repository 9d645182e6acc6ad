#include "coordinator/controller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "base/version.h"

namespace stagecoach::coordinator {

absl::Status ValidateTimes(const ControllerOptions& options) {
  if (absl::ZeroDuration() < options.heartbeat &&
      options.heartbeat < options.suspect && options.suspect < options.dead) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("heartbeat ", absl::FormatDuration(options.heartbeat),
                   ", suspect ", absl::FormatDuration(options.suspect),
                   ", dead ", absl::FormatDuration(options.dead),
                   " do not increase; the defaults are 500ms, 2s, 6s"));
}

Controller::Controller(ControllerOptions options, Clock* clock,
                       Executor* executor, Executor* planning, Journal* journal)
    : options_(std::move(options)),
      clock_(clock),
      executor_(executor),
      planning_(planning),
      journal_(journal),
      last_tick_(clock->Now()) {}

void Controller::Post(std::function<void()> task) {
  executor_->Add([this, task = std::move(task)] {
    task();
    NotifyWatchers();
    OfferToReaders();
  });
}

bool Controller::Commit(EventBody body) {
  Event event;
  event.at = Now();
  event.body = std::move(body);
  absl::Status status = journal_->Append(event);
  if (status.ok()) status = state_.Apply(event);
  if (status.ok()) return true;
  LogError(absl::StrCat("the coordinator stops: ", status.ToString()));
  StopNow(absl::UnavailableError(absl::StrCat(
      "the coordinator cannot record what happens: ", status.message())));
  return false;
}

absl::Status Controller::Admit(const v1::ClientVersion& version) const {
  SC_RETURN_IF_ERROR(stopped_);
  if (version.protocol() == kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "version skew: the client is ",
      version.version().empty() ? "of unknown version" : version.version(),
      " (protocol ", version.protocol(), "), the coordinator ", kVersion,
      " (protocol ", kProtocolVersion, "); use the same version of both"));
}

absl::StatusOr<const JobRecord*> Controller::Find(
    const std::string& job_id) const {
  const bool latest = job_id == "latest";
  if (latest && state_.job_order().empty()) {
    return absl::NotFoundError("no job was submitted yet");
  }
  const JobRecord* job =
      state_.FindJob(latest ? state_.job_order().back() : job_id);
  if (job != nullptr) return job;
  return absl::NotFoundError(absl::StrCat(
      "there is no job \"", job_id, "\"; `stagecoach job list` shows all"));
}

void Controller::OnConnected(std::shared_ptr<WorkerLink> link) {
  Post([this, link = std::move(link)] {
    if (!stopped_.ok()) return link->Close(stopped_);
    Session& session = sessions_[link.get()];
    session.link = link;
    session.connected = Now();
    session.last_heard = session.connected;
  });
}

void Controller::OnMessage(std::shared_ptr<WorkerLink> link,
                           v1::WorkerMessage message) {
  // The link is kept so that its address stays the session's name.
  Post([this, link = std::move(link), message = std::move(message)] {
    HandleMessage(link.get(), message);
  });
}

void Controller::OnDisconnected(std::shared_ptr<WorkerLink> link) {
  Post([this, link = std::move(link)] {
    auto it = sessions_.find(link.get());
    if (!stopped_.ok() || it == sessions_.end()) return;
    const std::string worker = it->second.worker;
    if (worker.empty()) {
      sessions_.erase(it);
      return;
    }
    LoseWorker(worker,
               "its session ended; the process is gone, or its "
               "connection broke");
    Schedule();
  });
}

void Controller::Tick() {
  Post([this] { TickNow(); });
}

void Controller::TickNow() {
  if (!stopped_.ok()) return;
  // If this process itself stood still (stopped, starved), messages wait
  // unread: nobody was silent because of that.
  const absl::Duration gap = Now() - last_tick_;
  last_tick_ = Now();
  if (gap > options_.suspect / 2) {
    for (auto& [link, session] : sessions_) {
      session.last_heard = std::min(Now(), session.last_heard + gap);
    }
  }
  CheckSilence();
  CheckRunDeadlines();
  CheckMemoryDeadlines();
}

void Controller::Stop(const absl::Status& status) {
  Post([this, status] { StopNow(status); });
}

void Controller::StopNow(const absl::Status& status) {
  if (!stopped_.ok()) return;
  stopped_ = status;
  for (const auto& [link, session] : sessions_) session.link->Close(status);
  for (const auto& [job, watches] : watches_) {
    for (const WatchRecord& watch : watches) watch.watcher->End(status);
  }
  for (const ReaderRecord& entry : readers_) entry.reader->End(status);
  for (const auto& [query, request] : memory_requests_) request.reply(status);
  // Sessions and runs are left to callers that are still looking at them.
  watches_.clear();
  readers_.clear();
  memory_requests_.clear();
}

}  // namespace stagecoach::coordinator
