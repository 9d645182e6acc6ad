#ifndef STAGECOACH_COORDINATOR_LINKS_H_
#define STAGECOACH_COORDINATOR_LINKS_H_

#include "absl/status/status.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/memory.pb.h"
#include "stagecoach/v1/session.pb.h"

namespace stagecoach::coordinator {

// One worker's session as the controller sees it: a gRPC stream, or a fake in
// tests. Never blocks, never calls the controller back from these methods.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  // Messages arrive in order. An error means that the link is of no use any
  // more; its end is reported by OnDisconnected.
  virtual absl::Status Send(v1::CoordinatorMessage message) = 0;
  // Ends the session with this status. What was sent before may be lost.
  virtual void Close(const absl::Status& status) = 0;
};

// One client that follows a job. As above.
class JobWatcher {
 public:
  virtual ~JobWatcher() = default;
  // An error (a slow reader) ends the watch; the watcher tells its client.
  virtual absl::Status Push(v1::WatchJobResponse event) = 0;
  // Nothing comes after this. OK: the job is finished.
  virtual void End(const absl::Status& status) = 0;
};

// One client that follows a job's memory. As above.
class MemoryWatcher {
 public:
  virtual ~MemoryWatcher() = default;
  virtual absl::Status Push(v1::GetMemoryStatsResponse figures) = 0;
  // Nothing comes after this. OK: the job is over.
  virtual void End(const absl::Status& status) = 0;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_LINKS_H_
