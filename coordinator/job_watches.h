#ifndef STAGECOACH_COORDINATOR_JOB_WATCHES_H_
#define STAGECOACH_COORDINATOR_JOB_WATCHES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/cluster_state.h"
#include "coordinator/links.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach::coordinator {

// The clients that watch jobs: each gets the whole history of its job, then
// every change, up to the job's end. A watcher that refuses an event is
// forgotten. Owned by the controller and used on its executor; `state` must
// outlive it.
class JobWatches {
 public:
  explicit JobWatches(const ClusterState* state) : state_(state) {}

  // Tells at once what the client has not seen.
  void Add(const JobRecord& job, const v1::WatchJobRequest& request,
           std::shared_ptr<JobWatcher> watcher, absl::Time now);
  // Unknown watchers are ignored: they have ended.
  void Remove(const std::shared_ptr<JobWatcher>& watcher);
  // Tells everybody what has changed since the last call.
  void Notify(absl::Time now);
  void EndAll(const absl::Status& status);

 private:
  struct Watch {
    std::shared_ptr<JobWatcher> watcher;
    int64_t next_step = 0;
    int64_t revision = 0;
    bool first = true;
  };

  // False once the watch has ended.
  static bool Update(const JobRecord& job, absl::Time now, Watch& watch);

  const ClusterState* const state_;
  std::map<std::string, std::vector<Watch>> watches_;  // by job; none is empty
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOB_WATCHES_H_
