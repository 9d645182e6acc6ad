#ifndef STAGECOACH_STAGE_WORKER_PEER_DIRECTORY_H_
#define STAGECOACH_STAGE_WORKER_PEER_DIRECTORY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "stage_worker/paths.h"

namespace stagecoach::worker {

// What this worker offers its peers, and how its ends of the data path are
// reached, for the placement that it holds now. The session writes, PeerService
// reads. Thread-safe.
class PeerDirectory {
 public:
  struct Endpoint {
    std::string kind;
    std::string descriptor;
  };
  struct Entry {
    std::string job_id;
    Epoch epoch;
    std::vector<Endpoint> endpoints;
  };

  explicit PeerDirectory(WorkerPaths paths = WorkerPaths())
      : paths_(std::move(paths)) {}
  // The same for all placements.
  const WorkerPaths& paths() const { return paths_; }

  void Publish(const Entry& entry) {
    MutexLock lock(&mu_);
    entry_ = entry;
    published_ = true;
  }
  void Withdraw() {
    MutexLock lock(&mu_);
    published_ = false;
  }
  // kNotFound: no such placement here (yet); kFailedPrecondition: a newer one
  // is here, the asker is stale.
  absl::StatusOr<Entry> Find(const std::string& job_id, Epoch epoch) const {
    MutexLock lock(&mu_);
    if (published_ && entry_.job_id == job_id) {
      if (entry_.epoch == epoch) return entry_;
      if (entry_.epoch > epoch) {
        return absl::FailedPreconditionError(
            absl::StrCat("job ", job_id, " is in epoch ", entry_.epoch.value(),
                         " here, not ", epoch.value()));
      }
    }
    return absl::NotFoundError(absl::StrCat(
        "job ", job_id, ", epoch ", epoch.value(), " is not placed here"));
  }

 private:
  const WorkerPaths paths_;
  mutable Mutex mu_;
  Entry entry_ SC_GUARDED_BY(mu_);
  bool published_ SC_GUARDED_BY(mu_) = false;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_PEER_DIRECTORY_H_
