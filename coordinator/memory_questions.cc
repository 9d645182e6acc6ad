#include "coordinator/memory_questions.h"

#include <algorithm>
#include <utility>

namespace stagecoach::coordinator {
namespace {

// What is held the engine tells after its present action.
constexpr int kHeldPatience = 4;
constexpr absl::Duration kShortestInterval = absl::Milliseconds(100);
constexpr absl::Duration kUsualInterval = absl::Seconds(1);

}  // namespace

MemoryQuestions::MemoryQuestions(const ClusterState* state,
                                 absl::Duration patience, Send send, Find find)
    : state_(state),
      patience_(patience),
      send_(std::move(send)),
      find_(std::move(find)) {}

void MemoryQuestions::Ask(MemoryQueryKind kind,
                          const v1::GetMemoryStatsRequest& request,
                          absl::Time now, Answer answer) {
  const absl::StatusOr<const JobRecord*> found = find_(request);
  if (!found.ok()) return answer(found.status());
  const JobRecord& job = **found;
  const bool held =
      kind == MemoryQueryKind::kHeld || kind == MemoryQueryKind::kSnapshot;
  const int64_t query = ++last_query_;
  Question& question = questions_[query];
  question.job_id = job.id;
  question.deadline = now + patience_ * (held ? kHeldPatience : 1);
  question.answer = std::move(answer);
  v1::CoordinatorMessage message;
  v1::MemoryQuery* const asked = message.mutable_memory_query();
  asked->set_query(query);
  asked->set_held(held);
  asked->set_points(kind == MemoryQueryKind::kSnapshot);
  asked->set_reset_peaks(kind == MemoryQueryKind::kResetPeak);
  asked->set_trim(kind == MemoryQueryKind::kTrim);
  for (const JobWorkerRecord& worker : job.workers) {
    if (state_->FindWorker(worker.name)->job_id != job.id) continue;
    question.asked.insert(worker.name);
    send_(worker.name, message, job.epoch);
  }
  if (question.asked.empty()) Finish(query);
}

void MemoryQuestions::OnReport(const std::string& worker,
                               const v1::MemoryReport& report) {
  const auto it = questions_.find(report.query());
  if (it == questions_.end()) return;  // too late
  Question& question = it->second;
  if (question.asked.erase(worker) == 0) return;
  // A worker that has let go meanwhile has left its last figures with the job.
  if (report.job_id() == question.job_id && report.has_memory()) {
    v1::WorkerMemory& memory = question.answers[worker];
    memory = report.memory();
    memory.set_worker(worker);
  }
  if (question.asked.empty()) Finish(report.query());
}

void MemoryQuestions::OnGone(const std::string& worker) {
  std::vector<int64_t> complete;
  for (auto& [query, question] : questions_) {
    if (question.asked.erase(worker) > 0 && question.asked.empty()) {
      complete.push_back(query);
    }
  }
  for (const int64_t query : complete) Finish(query);
}

void MemoryQuestions::Tick(absl::Time now) {
  std::vector<int64_t> overdue;
  for (const auto& [query, question] : questions_) {
    if (now >= question.deadline) overdue.push_back(query);
  }
  for (const int64_t query : overdue) Finish(query);
  AskForWatches(now);
}

void MemoryQuestions::Finish(int64_t query) {
  auto node = questions_.extract(query);
  Question& question = node.mapped();
  v1::GetMemoryStatsResponse response;
  response.set_job_id(question.job_id);
  const JobRecord* job = state_->FindJob(question.job_id);
  // Finished and forgotten meanwhile.
  response.set_over(job == nullptr || IsFinished(job->state));
  if (job == nullptr) return question.answer(std::move(response));
  for (const JobWorkerRecord& worker : job->workers) {
    const auto answer = question.answers.find(worker.name);
    if (answer != question.answers.end()) {
      *response.add_workers() = std::move(answer->second);
    } else if (worker.memory.has_value()) {
      *response.add_workers() = *worker.memory;
    } else {
      response.add_silent_workers(worker.name);
    }
  }
  question.answer(std::move(response));
}

void MemoryQuestions::Watch(const v1::WatchMemoryStatsRequest& request,
                            std::shared_ptr<MemoryWatcher> watcher,
                            absl::Time now) {
  Watched watch;
  *watch.request.mutable_version() = request.version();
  watch.request.set_job_id(request.job_id());
  // The job of now, whatever runs later.
  const auto job = find_(watch.request);
  if (job.ok()) watch.request.set_job_id((*job)->id);
  watch.interval =
      request.interval_milliseconds() == 0
          ? kUsualInterval
          : std::max(kShortestInterval,
                     absl::Milliseconds(request.interval_milliseconds()));
  watch.watcher = std::move(watcher);
  watches_.push_back(std::move(watch));
  AskForWatches(now);
}

void MemoryQuestions::Unwatch(const std::shared_ptr<MemoryWatcher>& watcher) {
  watches_.erase(std::remove_if(watches_.begin(), watches_.end(),
                                [&watcher](const Watched& watch) {
                                  return watch.watcher == watcher;
                                }),
                 watches_.end());
}

void MemoryQuestions::AskForWatches(absl::Time now) {
  std::vector<Watched> due;
  for (Watched& watch : watches_) {
    if (watch.asking || now < watch.due) continue;
    watch.asking = true;
    watch.due = now + watch.interval;
    due.push_back(watch);
  }
  // An answer may come at once and end a watch.
  for (const Watched& watch : due) {
    Ask(MemoryQueryKind::kStats, watch.request, now,
        [this, watcher = watch.watcher](
            absl::StatusOr<v1::GetMemoryStatsResponse> response) {
          Tell(watcher, std::move(response));
        });
  }
}

void MemoryQuestions::Tell(
    const std::shared_ptr<MemoryWatcher>& watcher,
    absl::StatusOr<v1::GetMemoryStatsResponse> response) {
  const auto watch = std::find_if(
      watches_.begin(), watches_.end(),
      [&watcher](const Watched& w) { return w.watcher == watcher; });
  if (watch == watches_.end()) return;
  watch->asking = false;
  const bool over = !response.ok() || response->over();
  absl::Status status = response.status();
  if (response.ok()) status = watcher->Push(*std::move(response));
  if (!over && status.ok()) return;
  Unwatch(watcher);
  watcher->End(status);
}

void MemoryQuestions::EndAll(const absl::Status& status) {
  // The answers of watched ones end their watches.
  std::map<int64_t, Question> questions = std::move(questions_);
  questions_.clear();
  for (const auto& [query, question] : questions) question.answer(status);
  for (const Watched& watch : watches_) watch.watcher->End(status);
  watches_.clear();
}

}  // namespace stagecoach::coordinator
