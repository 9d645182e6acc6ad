#ifndef STAGECOACH_STAGE_WORKER_WORKER_H_
#define STAGECOACH_STAGE_WORKER_WORKER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stage_worker/job_logs.h"
#include "stage_worker/placement.h"

namespace stagecoach::worker {

struct WorkerOptions {
  std::string name;  // unique in the cluster
  std::string coordinator = "127.0.0.1:7070";
  std::string listen = "127.0.0.1:0";  // PeerService
  bool allow_plaintext = false;
  std::string device = "cpu";
  std::string torch_version;     // empty without torch
  transport::Location location;  // of this process
  PlacementParts parts;
  // What is logged about jobs, for the coordinator; null: nothing is sent.
  JobLogs* logs = nullptr;  // must outlive the worker
};

// A stage worker daemon: one device, one session with the coordinator, at most
// one placement at a time. Thread-safe.
class Worker {
 public:
  // Starts listening and connecting; returns before the coordinator has
  // answered. Errors as rpc::Listen's.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(
      const WorkerOptions& options);
  ~Worker();

  // Blocks until Stop, the coordinator's Shutdown (OK), or a refusal that
  // retrying cannot mend: kFailedPrecondition another protocol version,
  // kAlreadyExists another live worker of this name.
  absl::Status Wait();
  // Stop(OK) once the job that this worker has a part in is moved away, at its
  // next step boundary; at once if there is none, or no coordinator to do it;
  // after `limit` in any case.
  void Drain(absl::Duration limit);
  // Makes Wait return `status`; the first call decides.
  void Stop(const absl::Status& status);

 private:
  class Impl;
  explicit Worker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_WORKER_H_
