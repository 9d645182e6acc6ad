#ifndef STAGECOACH_COORDINATOR_JOB_SERVICE_H_
#define STAGECOACH_COORDINATOR_JOB_SERVICE_H_

#include "coordinator/controller.h"
#include "stagecoach/v1/job.grpc.pb.h"

namespace stagecoach::coordinator {

// Forwards to the controller, which must outlive the server. Thread-safe; never
// blocks. A watcher who reads too slowly is cut with RESOURCE_EXHAUSTED and the
// revision from which it can resume.
class JobService final : public v1::JobService::CallbackService {
 public:
  // Events that may wait for a watcher.
  static constexpr size_t kWatchQueueLimit = 256;

  explicit JobService(Controller* controller,
                      size_t watch_queue_limit = kWatchQueueLimit)
      : controller_(controller), watch_queue_limit_(watch_queue_limit) {}

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const v1::SubmitJobRequest* request,
                                      v1::SubmitJobResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request,
                                   v1::Job* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::CancelJobResponse* response) override;
  grpc::ServerUnaryReactor* RescheduleJob(
      grpc::CallbackServerContext* context,
      const v1::RescheduleJobRequest* request,
      v1::RescheduleJobResponse* response) override;
  grpc::ServerUnaryReactor* CheckpointJob(
      grpc::CallbackServerContext* context,
      const v1::CheckpointJobRequest* request,
      v1::CheckpointJobResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(
      grpc::CallbackServerContext* context,
      const v1::WatchJobRequest* request) override;
  grpc::ServerWriteReactor<v1::StreamEventsResponse>* StreamEvents(
      grpc::CallbackServerContext* context,
      const v1::StreamEventsRequest* request) override;
  grpc::ServerWriteReactor<v1::StreamLogsResponse>* StreamLogs(
      grpc::CallbackServerContext* context,
      const v1::StreamLogsRequest* request) override;

 private:
  Controller* const controller_;
  const size_t watch_queue_limit_;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOB_SERVICE_H_
