// Memory figures of a job, asked of its workers.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "coordinator/controller.h"

namespace stagecoach::coordinator {
namespace {

constexpr int kHeldPatience = 4;
constexpr absl::Duration kShortestInterval = absl::Milliseconds(100);
constexpr absl::Duration kUsualInterval = absl::Seconds(1);

}  // namespace

void Controller::AskMemory(MemoryQueryKind kind,
                           v1::GetMemoryStatsRequest request,
                           Reply<v1::GetMemoryStatsResponse> reply) {
  Post([this, kind, request = std::move(request), reply = std::move(reply)] {
    StartMemoryRequest(kind, request, reply);
  });
}

std::string Controller::RunningOrLatest() const {
  const std::vector<std::string>& order = state_.job_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (runs_.count(*it) > 0) return *it;
  }
  return "latest";
}

void Controller::StartMemoryRequest(MemoryQueryKind kind,
                                    const v1::GetMemoryStatsRequest& request,
                                    Reply<v1::GetMemoryStatsResponse> reply) {
  absl::Status status = Admit(request.version());
  if (!status.ok()) return reply(status);
  std::string job_id = request.job_id();
  if (job_id.empty()) job_id = RunningOrLatest();
  absl::StatusOr<const JobRecord*> job = Find(job_id);
  if (!job.ok()) return reply(job.status());
  const int64_t query = ++last_query_;
  MemoryRequest& pending = memory_requests_[query];
  pending.job_id = (*job)->id;
  const bool held =
      kind == MemoryQueryKind::kHeld || kind == MemoryQueryKind::kSnapshot;
  // What is held the engine tells after its present action.
  pending.deadline = Now() + options_.memory_wait * (held ? kHeldPatience : 1);
  pending.reply = std::move(reply);
  v1::CoordinatorMessage message;
  v1::MemoryQuery* const asked = message.mutable_memory_query();
  asked->set_query(query);
  asked->set_held(held);
  asked->set_points(kind == MemoryQueryKind::kSnapshot);
  asked->set_reset_peaks(kind == MemoryQueryKind::kResetPeak);
  for (const JobWorkerRecord& worker : (*job)->workers) {
    const WorkerRecord* record = state_.FindWorker(worker.name);
    if (record->job_id != (*job)->id) continue;
    pending.asked.insert(worker.name);
    SendTo(worker.name, message, (*job)->epoch);
  }
  if (pending.asked.empty()) FinishMemoryRequest(query);
}

void Controller::OnMemoryReport(const std::string& worker,
                                const v1::MemoryReport& report) {
  auto it = memory_requests_.find(report.query());
  if (it == memory_requests_.end()) return;  // too late
  MemoryRequest& pending = it->second;
  if (pending.asked.erase(worker) == 0) return;
  // A worker that has let go meanwhile has left its last figures with the job.
  if (report.job_id() == pending.job_id && report.has_memory()) {
    v1::WorkerMemory& memory = pending.answers[worker];
    memory = report.memory();
    memory.set_worker(worker);
  }
  if (pending.asked.empty()) FinishMemoryRequest(report.query());
}

void Controller::ForgetInMemoryRequests(const std::string& worker) {
  std::vector<int64_t> complete;
  for (auto& [query, pending] : memory_requests_) {
    if (pending.asked.erase(worker) > 0 && pending.asked.empty()) {
      complete.push_back(query);
    }
  }
  for (int64_t query : complete) FinishMemoryRequest(query);
}

void Controller::CheckMemoryDeadlines() {
  std::vector<int64_t> overdue;
  for (const auto& [query, pending] : memory_requests_) {
    if (Now() >= pending.deadline) overdue.push_back(query);
  }
  for (int64_t query : overdue) FinishMemoryRequest(query);
}

void Controller::FinishMemoryRequest(int64_t query) {
  auto node = memory_requests_.extract(query);
  MemoryRequest& pending = node.mapped();
  v1::GetMemoryStatsResponse response;
  response.set_job_id(pending.job_id);
  const JobRecord* job = state_.FindJob(pending.job_id);
  // Finished and forgotten meanwhile.
  response.set_over(job == nullptr || IsFinished(job->state));
  if (job == nullptr) return pending.reply(std::move(response));
  for (const JobWorkerRecord& worker : job->workers) {
    auto answer = pending.answers.find(worker.name);
    if (answer != pending.answers.end()) {
      *response.add_workers() = std::move(answer->second);
    } else if (worker.memory.has_value()) {
      *response.add_workers() = *worker.memory;
    } else {
      response.add_silent_workers(worker.name);
    }
  }
  pending.reply(std::move(response));
}

void Controller::WatchMemory(v1::WatchMemoryStatsRequest request,
                             std::shared_ptr<MemoryWatcher> watcher) {
  Post([this, request = std::move(request), watcher = std::move(watcher)] {
    MemoryWatch watch;
    *watch.request.mutable_version() = request.version();
    watch.request.set_job_id(request.job_id());
    if (request.job_id().empty()) watch.request.set_job_id(RunningOrLatest());
    watch.interval =
        request.interval_milliseconds() == 0
            ? kUsualInterval
            : std::max(kShortestInterval,
                       absl::Milliseconds(request.interval_milliseconds()));
    watch.watcher = watcher;
    memory_watches_.push_back(std::move(watch));
    AskForWatches();
  });
}

void Controller::UnwatchMemory(std::shared_ptr<MemoryWatcher> watcher) {
  Post([this, watcher = std::move(watcher)] { DropMemoryWatch(watcher); });
}

void Controller::DropMemoryWatch(
    const std::shared_ptr<MemoryWatcher>& watcher) {
  memory_watches_.erase(
      std::remove_if(memory_watches_.begin(), memory_watches_.end(),
                     [&watcher](const MemoryWatch& watch) {
                       return watch.watcher == watcher;
                     }),
      memory_watches_.end());
}

void Controller::AskForWatches() {
  std::vector<MemoryWatch> due;
  for (MemoryWatch& watch : memory_watches_) {
    if (watch.asking || Now() < watch.due) continue;
    watch.asking = true;
    watch.due = Now() + watch.interval;
    due.push_back(watch);
  }
  // An answer may come at once and end a watch.
  for (const MemoryWatch& watch : due) {
    StartMemoryRequest(
        MemoryQueryKind::kStats, watch.request,
        [this, watcher = watch.watcher](
            absl::StatusOr<v1::GetMemoryStatsResponse> response) {
          TellMemoryWatch(watcher, std::move(response));
        });
  }
}

void Controller::TellMemoryWatch(
    const std::shared_ptr<MemoryWatcher>& watcher,
    absl::StatusOr<v1::GetMemoryStatsResponse> response) {
  const auto watch = std::find_if(
      memory_watches_.begin(), memory_watches_.end(),
      [&watcher](const MemoryWatch& w) { return w.watcher == watcher; });
  if (watch == memory_watches_.end()) return;
  watch->asking = false;
  const bool over = !response.ok() || response->over();
  absl::Status status = response.status();
  if (response.ok()) status = watcher->Push(*std::move(response));
  if (!over && status.ok()) return;
  DropMemoryWatch(watcher);
  watcher->End(status);
}

}  // namespace stagecoach::coordinator
