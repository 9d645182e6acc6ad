#ifndef STAGECOACH_CLIENT_JOB_CLIENT_H_
#define STAGECOACH_CLIENT_JOB_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/interrupt.h"
#include "client/job_view.h"
#include "stagecoach/v1/cluster.grpc.pb.h"
#include "stagecoach/v1/job.grpc.pb.h"
#include "stagecoach/v1/memory.grpc.pb.h"

namespace stagecoach::client {

// Speaks to one coordinator. Calls block, each at most 5 s but for Watch;
// Submit, Cancel and Get are repeated for 2 s while the coordinator cannot be
// reached. A coordinator that cannot be reached or does not answer is
// kUnavailable with one line that says what to do; other codes are the
// services' own. Thread-compatible.
class JobClient {
 public:
  explicit JobClient(std::string endpoint);

  // The new job's id. Sends an id of the request, so that a repeated message
  // does not make a second job. `resume`: it goes on from a checkpoint.
  absl::StatusOr<std::string> Submit(const v1::JobSpec& spec,
                                     bool resume = false);
  absl::StatusOr<v1::Job> Get(const std::string& job_id);
  absl::StatusOr<v1::ListJobsResponse> List();
  // `send_budget` 0: as before.
  absl::StatusOr<v1::Job> Reschedule(const std::string& job_id,
                                     const std::string& schedule,
                                     int64_t send_budget);
  absl::StatusOr<v1::Job> Cancel(const std::string& job_id,
                                 const std::string& reason);
  // Asks for a checkpoint at the next step boundary; does not wait for it.
  absl::StatusOr<v1::CheckpointJobResponse> Checkpoint(
      const std::string& job_id);
  // Of the running or last job if `job_id` is empty.
  absl::StatusOr<v1::GetMemoryStatsResponse> MemoryStats(
      const std::string& job_id);
  // The same with what is held; with that and the last actions; and letting
  // every peak begin anew.
  absl::StatusOr<v1::GetMemoryStatsResponse> HeldMemory(
      const std::string& job_id);
  absl::StatusOr<v1::GetMemoryStatsResponse> SnapshotMemory(
      const std::string& job_id);
  absl::StatusOr<v1::GetMemoryStatsResponse> ResetMemoryPeaks(
      const std::string& job_id);
  // After its workers have given back what they keep for later.
  absl::StatusOr<v1::GetMemoryStatsResponse> TrimMemory(
      const std::string& job_id);
  // Calls `on_figures` after each interval until the job is over. Errors as
  // Watch's; a lost connection is kUnavailable at once.
  absl::Status WatchMemory(
      const std::string& job_id, absl::Duration interval, Interrupt* interrupt,
      const std::function<void(const v1::GetMemoryStatsResponse&)>& on_figures);
  absl::StatusOr<v1::ListWorkersResponse> Workers();
  absl::StatusOr<v1::GetCoordinatorResponse> Coordinator();

  // Follows a job into `view` until it has ended, and calls `on_change` after
  // each change with what the event brought. Goes on from where it was after a
  // connection was lost, and gives up (kUnavailable) when none came back for
  // 10 s. kCancelled as soon as `interrupt` is raised, kDeadlineExceeded at
  // `deadline` (of Clock::Real()).
  absl::Status Watch(const std::string& job_id, absl::Time deadline,
                     Interrupt* interrupt, JobView* view,
                     const std::function<void(const v1::Job&)>& on_change);

  // Read what a job leaves behind: with `follow` until it is over, otherwise
  // what there is now. `request` has the job's id and what the caller has
  // already; it is kept up to date, so that a lost connection, or a later call,
  // goes on with the next byte or event. Errors as Watch's.
  absl::Status StreamEvents(
      v1::StreamEventsRequest* request, Interrupt* interrupt,
      const std::function<void(const v1::JobEvent&)>& on_event,
      v1::StreamEnd* end);
  absl::Status StreamLogs(
      v1::StreamLogsRequest* request, Interrupt* interrupt,
      const std::function<void(const v1::LogPiece&)>& on_piece,
      v1::StreamEnd* end);

 private:
  absl::Status ToStatus(const grpc::Status& status) const;
  using MemoryCall = grpc::Status (v1::MemoryService::Stub::*)(
      grpc::ClientContext*, const v1::GetMemoryStatsRequest&,
      v1::GetMemoryStatsResponse*);
  absl::StatusOr<v1::GetMemoryStatsResponse> AskMemory(
      MemoryCall call, const std::string& job_id);
  // One stream; *progressed tells whether any event came.
  absl::Status WatchOnce(const std::string& job_id, absl::Time deadline,
                         Interrupt* interrupt, JobView* view,
                         const std::function<void(const v1::Job&)>& on_change,
                         bool* progressed);
  // Runs `once`, which reads one stream, again and again over lost connections.
  absl::Status KeepUp(
      absl::Time deadline, Interrupt* interrupt,
      const std::function<absl::Status(bool* progressed)>& once) const;

  const std::string endpoint_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::JobService::Stub> jobs_;
  const std::unique_ptr<v1::MemoryService::Stub> memory_;
  const std::unique_ptr<v1::ClusterService::Stub> cluster_;
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_JOB_CLIENT_H_
