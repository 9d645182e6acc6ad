#ifndef STAGECOACH_CLIENT_TESTING_FAKE_COORDINATOR_H_
#define STAGECOACH_CLIENT_TESTING_FAKE_COORDINATOR_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/version.h"
#include "stagecoach/v1/cluster.grpc.pb.h"
#include "stagecoach/v1/job.grpc.pb.h"
#include "stagecoach/v1/memory.grpc.pb.h"

namespace stagecoach::client {

// A coordinator that trains nothing: jobs are as the test puts them. It serves
// real gRPC on a loopback port. Thread-safe. Hooks run on gRPC's threads, one
// at a time; set them before Start.
class FakeCoordinator final
    : public v1::JobService::WithCallbackMethod_WatchJob<
          v1::JobService::Service>,
      public v1::ClusterService::Service,
      public v1::MemoryService::Service {
 public:
  FakeCoordinator() = default;
  ~FakeCoordinator() override;

  // The address.
  std::string Start();
  // Every call ends with this; OK: calls are answered.
  void RefuseCalls(const absl::Status& status) SC_EXCLUDES(mu_);

  // Sets the state of a job (by its id) and tells watchers.
  void Put(v1::Job job) SC_EXCLUDES(mu_);
  v1::Job Find(const std::string& job_id) SC_EXCLUDES(mu_);
  // Ends all streams as a lost connection would.
  void BreakStreams() SC_EXCLUDES(mu_);
  // Adds an event to a job; its revision follows the last one's.
  void AddEvent(const std::string& job_id, v1::JobEvent event) SC_EXCLUDES(mu_);
  // Adds to a worker's log of a job.
  void AddLog(const std::string& job_id, const std::string& worker,
              const std::string& data) SC_EXCLUDES(mu_);
  // The next streams of events and logs break after one message each.
  void BreakNextReads(int count) SC_EXCLUDES(mu_);
  // Blocks until `count` streams of events and logs were opened, in all.
  void WaitForReads(int count) SC_EXCLUDES(mu_);
  // Blocks until somebody has opened `count` streams, in all.
  void WaitForWatches(int count) SC_EXCLUDES(mu_);

  // A submitted job is "j-1", QUEUED, when this is called.
  std::function<void(v1::Job job)> on_submit;
  // Instead of making the job CANCELLED.
  std::function<void(v1::Job job, std::string reason)> on_cancel;
  std::function<void()> on_watch;
  // Of a job that was asked for a checkpoint, after its second step.
  std::function<void(v1::Job job)> on_checkpoint;
  // What to say of itself.
  int protocol = kProtocolVersion;

  grpc::Status SubmitJob(grpc::ServerContext* context,
                         const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override;
  grpc::Status GetJob(grpc::ServerContext* context,
                      const v1::GetJobRequest* request,
                      v1::Job* response) override;
  grpc::Status ListJobs(grpc::ServerContext* context,
                        const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override;
  grpc::Status RescheduleJob(grpc::ServerContext* context,
                             const v1::RescheduleJobRequest* request,
                             v1::RescheduleJobResponse* response) override;
  grpc::Status CancelJob(grpc::ServerContext* context,
                         const v1::CancelJobRequest* request,
                         v1::CancelJobResponse* response) override;
  grpc::Status CheckpointJob(grpc::ServerContext* context,
                             const v1::CheckpointJobRequest* request,
                             v1::CheckpointJobResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(
      grpc::CallbackServerContext* context,
      const v1::WatchJobRequest* request) override;
  grpc::Status StreamEvents(
      grpc::ServerContext* context, const v1::StreamEventsRequest* request,
      grpc::ServerWriter<v1::StreamEventsResponse>* writer) override;
  grpc::Status StreamLogs(
      grpc::ServerContext* context, const v1::StreamLogsRequest* request,
      grpc::ServerWriter<v1::StreamLogsResponse>* writer) override;
  grpc::Status ListWorkers(grpc::ServerContext* context,
                           const v1::ListWorkersRequest* request,
                           v1::ListWorkersResponse* response) override;
  grpc::Status GetCoordinator(grpc::ServerContext* context,
                              const v1::GetCoordinatorRequest* request,
                              v1::GetCoordinatorResponse* response) override;
  grpc::Status GetStats(grpc::ServerContext* context,
                        const v1::GetMemoryStatsRequest* request,
                        v1::GetMemoryStatsResponse* response) override;

 private:
  class Watcher;
  using Logs = std::map<std::string, std::string>;  // by worker

  // What streams read of a job.
  struct Readable {
    std::vector<v1::JobEvent> events;
    Logs logs;
  };

  // Serves one stream: `next` fills in a message or says that there is none
  // yet.
  template <typename Request, typename Response>
  grpc::Status Serve(
      grpc::ServerContext* context, const Request& request,
      grpc::ServerWriter<Response>* writer,
      const std::function<bool(const Readable&, Response*)>& next)
      SC_EXCLUDES(mu_);

  // OK, or what ends a call of this version.
  grpc::Status Admit(const v1::ClientVersion& version) SC_EXCLUDES(mu_);
  grpc::Status FindLocked(const std::string& job_id, v1::Job* job)
      SC_REQUIRES(mu_);
  void WakeWatchers() SC_EXCLUDES(mu_);

  std::unique_ptr<grpc::Server> server_;
  Mutex mu_;
  CondVar changed_;
  absl::Status refusal_ SC_GUARDED_BY(mu_);
  std::map<std::string, v1::Job> jobs_ SC_GUARDED_BY(mu_);
  std::string latest_ SC_GUARDED_BY(mu_);
  std::map<std::string, std::string> id_of_request_ SC_GUARDED_BY(mu_);
  std::set<std::shared_ptr<Watcher>> watchers_ SC_GUARDED_BY(mu_);
  int watches_ SC_GUARDED_BY(mu_) = 0;
  std::map<std::string, Readable> readable_ SC_GUARDED_BY(mu_);
  int breaks_ SC_GUARDED_BY(mu_) = 0;
  int reads_ SC_GUARDED_BY(mu_) = 0;
  bool stopping_ SC_GUARDED_BY(mu_) = false;
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_TESTING_FAKE_COORDINATOR_H_
