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
      *info->mutable_paths() = session->paths;
    }
    v1::RefusedMessages* refused = response.mutable_refused();
    refused->set_old_term(refused_.stale_term);
    refused->set_other_epoch(refused_.stale_epoch);
    refused->set_other_incarnation(refused_.stale_incarnation);
    refused->set_no_session(refused_.unregistered);
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
    const absl::Status status = Admit(request.version());
    if (!status.ok()) return watcher->End(status);
    const absl::StatusOr<const JobRecord*> job = Find(request.job_id());
    if (!job.ok()) return watcher->End(job.status());
    watches_.Add(**job, request, watcher, WallNow());
  });
}

void Controller::Unwatch(std::shared_ptr<JobWatcher> watcher) {
  Post([this, watcher = std::move(watcher)] { watches_.Remove(watcher); });
}

// ---- memory -----------------------------------------------------------------

void Controller::AskMemory(MemoryQueryKind kind,
                           v1::GetMemoryStatsRequest request,
                           Reply<v1::GetMemoryStatsResponse> reply) {
  Post([this, kind, request = std::move(request), reply = std::move(reply)] {
    memory_.Ask(kind, request, Now(), reply);
  });
}

void Controller::WatchMemory(v1::WatchMemoryStatsRequest request,
                             std::shared_ptr<MemoryWatcher> watcher) {
  Post([this, request = std::move(request), watcher = std::move(watcher)] {
    memory_.Watch(request, watcher, Now());
  });
}

void Controller::UnwatchMemory(std::shared_ptr<MemoryWatcher> watcher) {
  Post([this, watcher = std::move(watcher)] { memory_.Unwatch(watcher); });
}

absl::StatusOr<const JobRecord*> Controller::FindForMemory(
    const v1::GetMemoryStatsRequest& request) const {
  SC_RETURN_IF_ERROR(Admit(request.version()));
  if (!request.job_id().empty()) return Find(request.job_id());
  // The newest that runs, or the newest.
  const std::vector<std::string>& order = state_.job_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (runs_.count(*it) > 0) return Find(*it);
  }
  return Find("latest");
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
