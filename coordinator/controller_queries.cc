// What clients read: jobs, workers, memory, and streams of changes.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/version.h"
#include "coordinator/controller.h"
#include "coordinator/publish.h"

namespace stagecoach::coordinator {
namespace {

// A step takes about 75 bytes and a message at most 4 MiB.
constexpr int64_t kMaxStepsOfJob = 20'000;
constexpr int64_t kMaxStepsOfEvent = 10'000;
constexpr size_t kMaxJobsOfList = 1'000;

}  // namespace

void Controller::GetJob(v1::GetJobRequest request, Reply<v1::Job> reply) {
  Post([this, request = std::move(request), reply = std::move(reply)] {
    absl::Status status = Admit(request.version());
    if (!status.ok()) return reply(status);
    absl::StatusOr<const JobRecord*> job = Find(request.job_id());
    if (!job.ok()) return reply(job.status());
    JobView view;
    view.spec = view.stages = view.parameters = true;
    const int64_t steps = static_cast<int64_t>((*job)->steps.size());
    view.first_step = std::max<int64_t>(0, steps - kMaxStepsOfJob);
    view.max_steps = kMaxStepsOfJob;
    v1::Job response;
    ToProto(**job, view, WallNow(), &response);
    reply(std::move(response));
  });
}

void Controller::ListJobs(v1::ListJobsRequest request,
                          Reply<v1::ListJobsResponse> reply) {
  Post([this, request = std::move(request), reply = std::move(reply)] {
    absl::Status status = Admit(request.version());
    if (!status.ok()) return reply(status);
    const std::vector<std::string>& order = state_.job_order();
    v1::ListJobsResponse response;
    for (size_t i = order.size() - std::min(order.size(), kMaxJobsOfList);
         i < order.size(); ++i) {
      ToProto(*state_.FindJob(order[i]), JobView(), WallNow(),
              response.add_jobs());
    }
    reply(std::move(response));
  });
}

void Controller::ListWorkers(v1::ListWorkersRequest request,
                             Reply<v1::ListWorkersResponse> reply) {
  Post([this, request = std::move(request), reply = std::move(reply)] {
    absl::Status status = Admit(request.version());
    if (!status.ok()) return reply(status);
    v1::ListWorkersResponse response;
    for (const auto& [name, worker] : state_.workers()) {
      v1::WorkerInfo* info = response.add_workers();
      ToProto(worker, state_.FindJob(worker.job_id), info);
      const Session* session = SessionOf(name);
      if (session == nullptr) continue;
      info->set_seconds_since_heartbeat(
          absl::ToDoubleSeconds(Now() - session->last_heard));
    }
    reply(std::move(response));
  });
}

void Controller::GetCoordinator(v1::GetCoordinatorRequest request,
                                Reply<v1::GetCoordinatorResponse> reply) {
  // Answered to every version: this is how a client learns of a skew.
  Post([this, request = std::move(request), reply = std::move(reply)] {
    if (!stopped_.ok()) return reply(stopped_);
    v1::GetCoordinatorResponse response;
    response.set_version(kVersion);
    response.set_protocol(kProtocolVersion);
    response.set_term(options_.term.value());
    reply(std::move(response));
  });
}

// ---- watching ---------------------------------------------------------------

void Controller::Watch(v1::WatchJobRequest request,
                       std::shared_ptr<JobWatcher> watcher) {
  Post([this, request = std::move(request), watcher = std::move(watcher)] {
    WatchNow(request, watcher);
  });
}

void Controller::WatchNow(const v1::WatchJobRequest& request,
                          std::shared_ptr<JobWatcher> watcher) {
  absl::Status status = Admit(request.version());
  if (!status.ok()) return watcher->End(status);
  absl::StatusOr<const JobRecord*> job = Find(request.job_id());
  if (!job.ok()) return watcher->End(job.status());
  WatchRecord watch;
  watch.watcher = std::move(watcher);
  watch.revision = request.after_revision();
  // Who has no revision has no step either, whatever the other field says.
  if (request.after_revision() > 0) {
    watch.next_step =
        std::clamp<int64_t>(request.after_step() + 1 - (*job)->first_step, 0,
                            static_cast<int64_t>((*job)->steps.size()));
  }
  const bool finished = IsFinished((*job)->state);
  // The last event is sent again to who may have missed it.
  if (finished || watch.revision < (*job)->revision) {
    if (!Update(**job, watch)) return;
  }
  watches_[(*job)->id].push_back(std::move(watch));
}

void Controller::Unwatch(std::shared_ptr<JobWatcher> watcher) {
  Post([this, watcher = std::move(watcher)] {
    for (auto it = watches_.begin(); it != watches_.end();) {
      auto& watches = it->second;
      watches.erase(std::remove_if(watches.begin(), watches.end(),
                                   [&](const WatchRecord& watch) {
                                     return watch.watcher == watcher;
                                   }),
                    watches.end());
      it = watches.empty() ? watches_.erase(it) : std::next(it);
    }
  });
}

void Controller::NotifyWatchers() {
  for (auto it = watches_.begin(); it != watches_.end();) {
    const JobRecord& job = *state_.FindJob(it->first);
    auto& watches = it->second;
    watches.erase(std::remove_if(watches.begin(), watches.end(),
                                 [&](WatchRecord& watch) {
                                   return watch.revision < job.revision &&
                                          !Update(job, watch);
                                 }),
                  watches.end());
    it = watches.empty() ? watches_.erase(it) : std::next(it);
  }
}

bool Controller::Update(const JobRecord& job, WatchRecord& watch) {
  const int64_t steps = static_cast<int64_t>(job.steps.size());
  const bool finished = IsFinished(job.state);
  while (true) {
    JobView view;
    view.first_step = watch.next_step;
    view.max_steps = kMaxStepsOfEvent;
    const bool last = steps - watch.next_step <= kMaxStepsOfEvent;
    view.spec = watch.first || (finished && last);
    view.stages = view.parameters = finished && last;
    v1::WatchJobResponse event;
    ToProto(job, view, WallNow(), event.mutable_job());
    if (!last) {
      // Part of a long history: the job is not shown as finished, and not at
      // its revision, before all of it has arrived.
      event.mutable_job()->set_revision(watch.revision);
      if (finished) event.mutable_job()->set_state(v1::JOB_STATE_RUNNING);
    }
    if (!watch.watcher->Push(std::move(event)).ok()) return false;
    watch.first = false;
    watch.next_step = std::min(steps, watch.next_step + kMaxStepsOfEvent);
    if (last) break;
  }
  watch.revision = job.revision;
  if (!finished) return true;
  watch.watcher->End(absl::OkStatus());
  return false;
}

// ---- reading ----------------------------------------------------------------

void Controller::Read(const v1::ClientVersion& version,
                      const std::string& job_id,
                      std::shared_ptr<JobReader> reader) {
  Post([this, version, job_id, reader = std::move(reader)] {
    const absl::Status status = Admit(version);
    if (!status.ok()) return reader->End(status);
    const absl::StatusOr<const JobRecord*> job = Find(job_id);
    if (!job.ok()) return reader->End(job.status());
    readers_.push_back({reader, (*job)->id});
  });
}

void Controller::ReadOn(std::shared_ptr<JobReader> reader) {
  Post([reader = std::move(reader)] { reader->OnSent(); });
}

void Controller::StopReading(std::shared_ptr<JobReader> reader) {
  Post([this, reader = std::move(reader)] {
    readers_.erase(std::remove_if(readers_.begin(), readers_.end(),
                                  [&](const ReaderRecord& entry) {
                                    return entry.reader == reader;
                                  }),
                   readers_.end());
  });
}

void Controller::OfferToReaders() {
  readers_.erase(
      std::remove_if(readers_.begin(), readers_.end(),
                     [this](const ReaderRecord& entry) {
                       const JobRecord* found = state_.FindJob(entry.job_id);
                       if (found == nullptr) {
                         entry.reader->End(absl::NotFoundError(absl::StrCat(
                             entry.job_id, " is not kept any longer")));
                         return true;
                       }
                       const JobRecord& job = *found;
                       // A failed job's workers may still be letting go.
                       const bool over =
                           IsFinished(job.state) && runs_.count(job.id) == 0;
                       return !entry.reader->Offer({job, logs_, over});
                     }),
      readers_.end());
}

}  // namespace stagecoach::coordinator
