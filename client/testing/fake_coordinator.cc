#include "client/testing/fake_coordinator.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/version.h"
#include "client/exit_codes.h"
#include "client/testing/sample_messages.h"
#include "rpc/channel.h"

namespace stagecoach::client {

// One stream. Owned by the coordinator's list until gRPC is done with it.
// Writes are started without the lock: their end may be reported at once, on
// the same stack.
class FakeCoordinator::Watcher final
    : public grpc::ServerWriteReactor<v1::WatchJobResponse> {
 public:
  Watcher(FakeCoordinator* owner, const v1::WatchJobRequest& request)
      : owner_(owner),
        job_id_(request.job_id()),
        revision_(request.after_revision()),
        step_(request.after_step()) {}

  void Wake() {
    if (const v1::WatchJobResponse* next = Next()) {
      StartWrite(next);
      return;
    }
    if (TakeFinish()) Finish(final_status_);
  }

  void Break() {
    {
      MutexLock lock(&owner_->mu_);
      end_ = true;
      final_status_ = grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken");
    }
    Wake();
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(&owner_->mu_);
      writing_ = false;
      end_ = end_ || !ok;
    }
    Wake();
  }

  void OnCancel() override {
    {
      MutexLock lock(&owner_->mu_);
      end_ = true;
    }
    Wake();
  }

  void OnDone() override {
    std::shared_ptr<Watcher> self;
    MutexLock lock(&owner_->mu_);
    for (const auto& watcher : owner_->watchers_) {
      if (watcher.get() == this) self = watcher;
    }
    owner_->watchers_.erase(self);
    owner_->changed_.NotifyAll();
  }

 private:
  // The message to write now, or null.
  const v1::WatchJobResponse* Next() {
    MutexLock lock(&owner_->mu_);
    if (writing_ || end_ || finished_) return nullptr;
    const auto it = owner_->jobs_.find(job_id_);
    if (it == owner_->jobs_.end()) return nullptr;
    const v1::Job& job = it->second;
    if (job.revision() <= revision_ && !IsFinished(job.state())) return nullptr;
    *response_.mutable_job() = job;
    response_.mutable_job()->clear_steps();
    for (const v1::StepResult& step : job.steps()) {
      if (step.step() > step_) *response_.mutable_job()->add_steps() = step;
    }
    revision_ = job.revision();
    if (!job.steps().empty()) step_ = job.steps().rbegin()->step();
    end_ = IsFinished(job.state());
    writing_ = true;
    return &response_;
  }

  // Whether the stream is to be ended now, by the caller.
  bool TakeFinish() {
    MutexLock lock(&owner_->mu_);
    if (writing_ || finished_ || !end_) return false;
    finished_ = true;
    return true;
  }

  // All of this is guarded by the owner's lock.
  FakeCoordinator* const owner_;
  const std::string job_id_;
  int64_t revision_;
  int64_t step_;
  v1::WatchJobResponse response_;
  grpc::Status final_status_;
  bool writing_ = false;
  bool end_ = false;
  bool finished_ = false;
};

FakeCoordinator::~FakeCoordinator() {
  if (server_ == nullptr) return;
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  BreakStreams();
  server_->Shutdown();
  MutexLock lock(&mu_);
  while (!watchers_.empty()) changed_.Wait(&mu_);
}

std::string FakeCoordinator::Start() {
  grpc::ServerBuilder builder;
  builder.RegisterService(static_cast<v1::JobService::Service*>(this));
  builder.RegisterService(static_cast<v1::ClusterService::Service*>(this));
  builder.RegisterService(static_cast<v1::MemoryService::Service*>(this));
  absl::StatusOr<rpc::ListeningServer> listening =
      rpc::Listen(builder, rpc::ListenOptions());
  if (!listening.ok()) {
    std::fprintf(stderr, "%s\n", listening.status().ToString().c_str());
    std::abort();
  }
  server_ = std::move(listening->server);
  return listening->address;
}

void FakeCoordinator::RefuseCalls(const absl::Status& status) {
  MutexLock lock(&mu_);
  refusal_ = status;
}

void FakeCoordinator::Put(v1::Job job) {
  {
    MutexLock lock(&mu_);
    v1::Job& known = jobs_[job.id()];
    job.set_revision(known.revision() + 1);
    latest_ = job.id();
    known = std::move(job);
    changed_.NotifyAll();
  }
  WakeWatchers();
}

v1::Job FakeCoordinator::Find(const std::string& job_id) {
  MutexLock lock(&mu_);
  v1::Job job;
  FindLocked(job_id, &job);
  return job;
}

void FakeCoordinator::WakeWatchers() {
  std::set<std::shared_ptr<Watcher>> watchers;
  {
    MutexLock lock(&mu_);
    watchers = watchers_;
  }
  for (const auto& watcher : watchers) watcher->Wake();
}

void FakeCoordinator::BreakStreams() {
  std::set<std::shared_ptr<Watcher>> watchers;
  {
    MutexLock lock(&mu_);
    watchers = watchers_;
  }
  for (const auto& watcher : watchers) watcher->Break();
}

void FakeCoordinator::AddEvent(const std::string& job_id, v1::JobEvent event) {
  MutexLock lock(&mu_);
  std::vector<v1::JobEvent>& events = readable_[job_id].events;
  event.set_revision(static_cast<int64_t>(events.size()) + 1);
  events.push_back(std::move(event));
  changed_.NotifyAll();
}

void FakeCoordinator::AddLog(const std::string& job_id,
                             const std::string& worker,
                             const std::string& data) {
  MutexLock lock(&mu_);
  readable_[job_id].logs[worker] += data;
  changed_.NotifyAll();
}

void FakeCoordinator::BreakNextReads(int count) {
  MutexLock lock(&mu_);
  breaks_ = count;
}

void FakeCoordinator::WaitForReads(int count) {
  MutexLock lock(&mu_);
  while (reads_ < count) changed_.Wait(&mu_);
}

void FakeCoordinator::WaitForWatches(int count) {
  MutexLock lock(&mu_);
  while (watches_ < count) changed_.Wait(&mu_);
}

grpc::Status FakeCoordinator::Admit(const v1::ClientVersion& version) {
  MutexLock lock(&mu_);
  if (!refusal_.ok()) return rpc::ToGrpc(refusal_);
  if (version.version().empty() || version.protocol() != kProtocolVersion) {
    return grpc::Status(grpc::StatusCode::INTERNAL,
                        "the client did not say its version");
  }
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::FindLocked(const std::string& job_id,
                                         v1::Job* job) {
  const auto it = jobs_.find(job_id == "latest" ? latest_ : job_id);
  if (it == jobs_.end()) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND,
                        absl::StrCat("there is no job \"", job_id, "\""));
  }
  *job = it->second;
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::SubmitJob(grpc::ServerContext*,
                                        const v1::SubmitJobRequest* request,
                                        v1::SubmitJobResponse* response) {
  const grpc::Status status = Admit(request->version());
  if (!status.ok()) return status;
  v1::Job job;
  {
    MutexLock lock(&mu_);
    std::string& id = id_of_request_[request->request_id()];
    if (id.empty()) id = absl::StrCat("j-", id_of_request_.size());
    job.set_id(id);
  }
  job.set_name(request->spec().name());
  job.set_state(v1::JOB_STATE_QUEUED);
  job.set_schedule(request->spec().pipeline().schedule());
  job.set_release(request->spec().pipeline().release());
  *job.mutable_spec() = request->spec();
  // As if its newest checkpoint were of step 1.
  if (request->resume()) job.set_first_step(1);
  Put(job);
  response->set_job_id(job.id());
  if (on_submit) on_submit(job);
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::GetJob(grpc::ServerContext*,
                                     const v1::GetJobRequest* request,
                                     v1::Job* response) {
  const grpc::Status status = Admit(request->version());
  if (!status.ok()) return status;
  MutexLock lock(&mu_);
  return FindLocked(request->job_id(), response);
}

grpc::Status FakeCoordinator::ListJobs(grpc::ServerContext*,
                                       const v1::ListJobsRequest* request,
                                       v1::ListJobsResponse* response) {
  const grpc::Status status = Admit(request->version());
  if (!status.ok()) return status;
  MutexLock lock(&mu_);
  for (const auto& [id, job] : jobs_) *response->add_jobs() = job;
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::RescheduleJob(
    grpc::ServerContext*, const v1::RescheduleJobRequest* request,
    v1::RescheduleJobResponse* response) {
  const grpc::Status status = Admit(request->version());
  if (!status.ok()) return status;
  v1::Job job;
  {
    MutexLock lock(&mu_);
    const grpc::Status found = FindLocked(request->job_id(), &job);
    if (!found.ok()) return found;
  }
  if (job.state() != v1::JOB_STATE_RUNNING) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                        "only a running job takes another schedule");
  }
  job.set_schedule(request->schedule());
  job.mutable_spec()->mutable_pipeline()->set_send_budget(
      request->send_budget());
  *response->mutable_job() = job;
  Put(job);
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::CancelJob(grpc::ServerContext*,
                                        const v1::CancelJobRequest* request,
                                        v1::CancelJobResponse* response) {
  const grpc::Status status = Admit(request->version());
  if (!status.ok()) return status;
  v1::Job job;
  {
    MutexLock lock(&mu_);
    const grpc::Status found = FindLocked(request->job_id(), &job);
    if (!found.ok()) return found;
  }
  if (IsFinished(job.state())) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                        "the job has ended already");
  }
  job.set_state(v1::JOB_STATE_CANCELLING);
  job.set_reason(request->reason());
  *response->mutable_job() = job;
  if (on_cancel) {
    on_cancel(job, request->reason());
    return grpc::Status::OK;
  }
  job.set_state(v1::JOB_STATE_CANCELLED);
  Put(job);
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::CheckpointJob(
    grpc::ServerContext*, const v1::CheckpointJobRequest* request,
    v1::CheckpointJobResponse* response) {
  const grpc::Status status = Admit(request->version());
  if (!status.ok()) return status;
  v1::Job job;
  {
    MutexLock lock(&mu_);
    const grpc::Status found = FindLocked(request->job_id(), &job);
    if (!found.ok()) return found;
  }
  response->set_job_id(job.id());
  response->set_step(2);
  if (on_checkpoint) on_checkpoint(job);
  return grpc::Status::OK;
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* FakeCoordinator::WatchJob(
    grpc::CallbackServerContext*, const v1::WatchJobRequest* request) {
  const auto watcher = std::make_shared<Watcher>(this, *request);
  grpc::Status status = Admit(request->version());
  {
    MutexLock lock(&mu_);
    v1::Job job;
    if (status.ok()) status = FindLocked(request->job_id(), &job);
    watchers_.insert(watcher);
    ++watches_;
    changed_.NotifyAll();
  }
  if (!status.ok()) {
    watcher->Finish(status);
    return watcher.get();
  }
  if (on_watch) on_watch();
  watcher->Wake();
  return watcher.get();
}

template <typename Request, typename Response>
grpc::Status FakeCoordinator::Serve(
    grpc::ServerContext* context, const Request& request,
    grpc::ServerWriter<Response>* writer,
    const std::function<bool(const Readable&, Response*)>& next) {
  const grpc::Status status = Admit(request.version());
  if (!status.ok()) return status;
  {
    MutexLock lock(&mu_);
    ++reads_;
    changed_.NotifyAll();
  }
  while (!context->IsCancelled()) {
    Response response;
    bool breaks = false;
    {
      MutexLock lock(&mu_);
      if (stopping_) break;
      v1::Job job;
      const grpc::Status found = FindLocked(request.job_id(), &job);
      if (!found.ok()) return found;
      if (next(readable_[job.id()], &response)) {
        breaks = breaks_ > 0;
        if (breaks) --breaks_;
      } else if (IsFinished(job.state()) || !request.follow()) {
        response.mutable_end()->set_job_id(job.id());
        response.mutable_end()->set_state(job.state());
        response.mutable_end()->set_over(IsFinished(job.state()));
      } else {
        // A cancelled call wakes nobody.
        changed_.WaitFor(&mu_, absl::Milliseconds(50));
        continue;
      }
    }
    writer->Write(response);
    if (response.has_end()) return grpc::Status::OK;
    if (breaks) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken");
  }
  return grpc::Status::CANCELLED;
}

grpc::Status FakeCoordinator::StreamEvents(
    grpc::ServerContext* context, const v1::StreamEventsRequest* request,
    grpc::ServerWriter<v1::StreamEventsResponse>* writer) {
  size_t had = static_cast<size_t>(request->after_revision());
  return Serve<v1::StreamEventsRequest, v1::StreamEventsResponse>(
      context, *request, writer,
      [&had](const Readable& job, v1::StreamEventsResponse* response) {
        if (had >= job.events.size()) return false;
        *response->add_events() = job.events[had++];
        return true;
      });
}

grpc::Status FakeCoordinator::StreamLogs(
    grpc::ServerContext* context, const v1::StreamLogsRequest* request,
    grpc::ServerWriter<v1::StreamLogsResponse>* writer) {
  std::map<std::string, size_t> had;
  for (const v1::LogPosition& position : request->from()) {
    had[position.worker()] = static_cast<size_t>(position.offset());
  }
  return Serve<v1::StreamLogsRequest, v1::StreamLogsResponse>(
      context, *request, writer,
      [&](const Readable& job, v1::StreamLogsResponse* response) {
        for (const auto& [worker, log] : job.logs) {
          if (!request->worker().empty() && request->worker() != worker) {
            continue;
          }
          size_t& offset = had[worker];
          if (offset >= log.size()) continue;
          // Pieces that do not end with lines.
          const std::string data = log.substr(offset, 7);
          response->mutable_piece()->set_worker(worker);
          response->mutable_piece()->set_offset(static_cast<int64_t>(offset));
          response->mutable_piece()->set_data(data);
          offset += data.size();
          return true;
        }
        return false;
      });
}

grpc::Status FakeCoordinator::ListWorkers(grpc::ServerContext*,
                                          const v1::ListWorkersRequest* request,
                                          v1::ListWorkersResponse* response) {
  *response = SampleWorkers();
  return Admit(request->version());
}

grpc::Status FakeCoordinator::GetCoordinator(
    grpc::ServerContext*, const v1::GetCoordinatorRequest*,
    v1::GetCoordinatorResponse* response) {
  response->set_version("9.8.7");
  response->set_protocol(protocol);
  response->set_term(3);
  MutexLock lock(&mu_);
  return rpc::ToGrpc(refusal_);
}

grpc::Status FakeCoordinator::GetStats(grpc::ServerContext*,
                                       const v1::GetMemoryStatsRequest* request,
                                       v1::GetMemoryStatsResponse* response) {
  const grpc::Status status = Admit(request->version());
  if (!status.ok()) return status;
  v1::Job job;
  MutexLock lock(&mu_);
  const grpc::Status found = FindLocked(
      request->job_id().empty() ? "latest" : request->job_id(), &job);
  if (!found.ok()) return found;
  *response = SampleMemoryStats();
  response->set_job_id(job.id());
  return grpc::Status::OK;
}

}  // namespace stagecoach::client
