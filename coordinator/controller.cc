#include "coordinator/controller.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "base/version.h"

namespace stagecoach::coordinator {
namespace {

// With so many events that the journal does not take, the coordinator stops.
constexpr size_t kMaxUnwritten = 1000;
constexpr absl::Duration kCompactRetry = absl::Minutes(1);

// What a client is told about an event that the journal did not take. Not
// kUnavailable: the coordinator is there, and trying again at once is of no
// use.
absl::Status Refusal(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(
      absl::IsResourceExhausted(status) ? status.code()
                                        : absl::StatusCode::kInternal,
      absl::StrCat("the coordinator cannot record this, so it is not done: ",
                   status.message()));
}

// Found out again when it is not in the journal.
bool MayBeWrittenLater(const EventBody& body) {
  return std::holds_alternative<StepCommitted>(body) ||
         std::holds_alternative<WorkerSuspected>(body) ||
         std::holds_alternative<WorkerAnswered>(body) ||
         std::holds_alternative<JobWaiting>(body);
}

}  // namespace

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
      last_tick_(clock->Now()),
      memory_(
          &state_, options_.memory_wait,
          [this](const std::string& worker, v1::CoordinatorMessage message,
                 Epoch epoch) { SendTo(worker, std::move(message), epoch); },
          [this](const v1::GetMemoryStatsRequest& request) {
            return FindForMemory(request);
          }) {}

void Controller::Post(std::function<void()> task, Hurry hurry) {
  auto run = [this, task = std::move(task)] {
    task();
    watches_.Notify(WallNow());
    OfferToReaders();
  };
  if (hurry == Hurry::kByTheNextTick) {
    executor_->AddUnhurried(std::move(run));
  } else {
    executor_->Add(std::move(run));
  }
}

absl::Status Controller::TryCommit(EventBody body) {
  SC_RETURN_IF_ERROR(stopped_);
  Event event;
  event.at = absl::FromUnixNanos(absl::ToUnixNanos(WallNow()));
  event.body = std::move(body);
  if (MayBeWrittenLater(event.body)) {
    journal_->AppendLater(event);
    flush_due_ = std::min(flush_due_, Now() + options_.flush_wait);
  } else {
    SC_RETURN_IF_ERROR(Refusal(journal_->Append(event)));
  }
  if (const absl::Status status = state_.Apply(event); !status.ok()) {
    LogError(absl::StrCat("the coordinator stops: ", status.ToString()));
    StopNow(absl::UnavailableError(
        absl::StrCat("the coordinator is at fault: ", status.message())));
    if (options_.on_failure) options_.on_failure(stopped_);
    return stopped_;
  }
  NoteFlushed();
  return absl::OkStatus();
}

bool Controller::Commit(EventBody body) {
  const absl::Status status = TryCommit(std::move(body));
  if (status.ok()) return true;
  if (!stopped_.ok()) return false;
  LogError(absl::StrCat("the coordinator stops: ", status.ToString()));
  StopNow(absl::UnavailableError(absl::StrCat(
      "the coordinator cannot record what happens: ", status.message())));
  if (options_.on_failure) options_.on_failure(stopped_);
  return false;
}

absl::Status Controller::Flush() {
  SC_RETURN_IF_ERROR(journal_->Flush());
  NoteFlushed();
  return absl::OkStatus();
}

void Controller::NoteFlushed() {
  if (journal_->unwritten() > 0) return;
  flush_due_ = absl::InfiniteFuture();
  for (auto& [job_id, run] : runs_) {
    run.recorded_steps = state_.FindJob(job_id)->steps_committed();
  }
}

void Controller::TendJournal() {
  if (Now() >= flush_due_ || journal_->unwritten() >= options_.flush_events) {
    const absl::Status status = Flush();
    // Tried again with the next tick: workers keep what is not written.
    if (!status.ok() && journal_->unwritten() >= kMaxUnwritten) {
      LogError(absl::StrCat("the coordinator stops: ", status.ToString()));
      StopNow(absl::UnavailableError(absl::StrCat(
          "the coordinator cannot record what happens: ", status.message())));
      if (options_.on_failure) options_.on_failure(stopped_);
      return;
    }
  }
  if (Now() < compact_after_) return;
  ForgetOldJobs();
  const absl::Status status = journal_->Compact(state_);
  if (status.ok()) return;
  LogWarning(absl::StrCat("no snapshot of the journal: ", status.message()));
  compact_after_ = Now() + kCompactRetry;
}

void Controller::ForgetOldJobs() {
  size_t finished = 0;
  for (const std::string& id : state_.job_order()) {
    finished += IsFinished(state_.FindJob(id)->state);
  }
  if (finished <= options_.keep_jobs) return;
  // A copy: the order changes.
  const std::vector<std::string> order = state_.job_order();
  for (const std::string& id : order) {
    if (finished <= options_.keep_jobs) return;
    if (!IsFinished(state_.FindJob(id)->state) || runs_.count(id) > 0) {
      continue;
    }
    if (!TryCommit(JobForgotten{id}).ok()) return;
    --finished;
  }
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
  // Beats are most of what many idle workers send.
  const Hurry hurry =
      message.has_heartbeat() ? Hurry::kByTheNextTick : Hurry::kNow;
  // The link is kept so that its address stays the session's name.
  Post([this, link = std::move(link),
        message = std::move(message)] { HandleMessage(link.get(), message); },
       hurry);
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
    MissWorker(worker);
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
      session.moved = std::min(Now(), session.moved + gap);
    }
    for (auto& [worker, away] : away_) away.lost_at += gap;
  }
  CheckSilence();
  CheckStuck();
  CheckRest();
  CheckRunDeadlines();
  CheckRecoveries();
  CheckDraining();
  memory_.Tick(Now());
  // What the journal had refused.
  for (const std::string& job_id : std::vector<std::string>(state_.queue())) {
    const JobRecord* job = state_.FindJob(job_id);
    if (job->state == JobState::kQueued && !job->planned) {
      StartPlanning(job_id);
    }
  }
  Schedule();
  if (stopped_.ok()) TendJournal();
}

void Controller::Stop(const absl::Status& status) {
  Post([this, status] { StopNow(status); });
}

void Controller::StopNow(const absl::Status& status) {
  if (!stopped_.ok()) return;
  stopped_ = status;
  for (const auto& [link, session] : sessions_) session.link->Close(status);
  watches_.EndAll(status);
  for (const ReaderRecord& entry : readers_) entry.reader->End(status);
  readers_.clear();
  memory_.EndAll(status);
  // Sessions and runs are left to callers that are still looking at them.
}

}  // namespace stagecoach::coordinator
