#ifndef STAGECOACH_COORDINATOR_CONTROLLER_RECORDS_H_
#define STAGECOACH_COORDINATOR_CONTROLLER_RECORDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "coordinator/failure.h"
#include "coordinator/job_reader.h"
#include "coordinator/job_run.h"
#include "coordinator/links.h"
#include "coordinator/restored_plans.h"
#include "stagecoach/v1/cluster.pb.h"
#include "stagecoach/v1/memory.pb.h"

// What the controller keeps of whom it talks with, beside its ClusterState:
// nothing of it outlives the process.
namespace stagecoach::coordinator {

template <typename T>
using Reply = std::function<void(absl::StatusOr<T>)>;

// An open session of a worker.
struct WorkerSession {
  std::shared_ptr<WorkerLink> link;
  std::string worker;  // empty until it has registered
  Incarnation incarnation;
  absl::Time connected;
  absl::Time last_heard;
  google::protobuf::RepeatedPtrField<v1::WorkerPath> paths;
  std::optional<Position> position;  // in the current job
  // When it last said something new, or was told something to do.
  absl::Time moved;
};

// A registered worker without a session.
struct AwayWorker {
  absl::Time lost_at;  // if it stays away
  std::optional<Position> position;
  std::string reason;
};

// A placement and what is known against it.
struct PlacementRun {
  explicit PlacementRun(JobRun placement) : run(std::move(placement)) {}
  JobRun run;
  absl::Time placed;           // or when a worker was last told to go on
  int64_t recorded_steps = 0;  // they are in the journal
  std::vector<FailureReport> reports;
  absl::Time failed_deadline = absl::InfiniteFuture();
  absl::Time release_deadline = absl::InfiniteFuture();
};

// A job that survived a failure and is not placed again yet.
struct PendingRecovery {
  RestoredPlans plans;  // empty: to be made again
  // Set once the state to go on with is chosen.
  absl::Time give_up = absl::InfiniteFuture();
  // Chosen once nobody is away who may keep a copy of it.
  bool postponed = false;
  bool is_ready() const { return give_up != absl::InfiniteFuture(); }
};

// A client that reads a job's events or logs.
struct ReaderRecord {
  std::shared_ptr<JobReader> reader;
  std::string job_id;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_CONTROLLER_RECORDS_H_
