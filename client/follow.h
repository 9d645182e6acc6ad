#ifndef STAGECOACH_CLIENT_FOLLOW_H_
#define STAGECOACH_CLIENT_FOLLOW_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/interrupt.h"
#include "client/job_client.h"
#include "client/job_view.h"
#include "client/local_cluster.h"
#include "client/progress.h"

namespace stagecoach::client {

// Follows one job to its end, and decides what Ctrl-C, a timeout and the end of
// a process of the local cluster mean.
class Follower {
 public:
  struct Options {
    // On Ctrl-C: cancel the job and wait for its end, instead of leaving it.
    bool cancel_on_interrupt = false;
    absl::Duration timeout = absl::InfiniteDuration();
    // The cluster that the job runs on, if it is ours.
    LocalCluster* cluster = nullptr;
    // How many of its workers, in all, are started again after they ended.
    int64_t restarts = 0;
  };

  // All must outlive it.
  Follower(JobClient* client, Interrupt* interrupt, ProgressPrinter* progress,
           const Options& options)
      : client_(client),
        interrupt_(interrupt),
        progress_(progress),
        options_(options) {}

  // Blocks. OK once the job has ended, however it did. kCancelled: left by
  // Ctrl-C, the job goes on; kDeadlineExceeded: timeout; kAborted: a process of
  // the local cluster ended and the job with it (cluster->FirstExit() says
  // which); else the coordinator's error.
  absl::Status Follow(const std::string& job_id);

  // What is known of the job, also after an error.
  const v1::Job& job() const { return view_.job(); }

 private:
  // What to do after the watch was interrupted. OK: go on.
  absl::Status HandleInterrupt(const std::string& job_id);
  // What Follow returns after the last watch ended with `status`.
  absl::Status Conclude(const std::string& job_id, const absl::Status& status);
  void HandleChildExit();
  // Whether the process runs again.
  bool Restart(const ChildExit& exit);

  JobClient* const client_;
  Interrupt* const interrupt_;
  ProgressPrinter* const progress_;
  const Options options_;
  JobView view_;
  absl::Time deadline_ = absl::InfiniteFuture();
  bool cancelling_ = false;
  int64_t restarts_ = 0;
  std::optional<ChildExit> child_ended_;
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_FOLLOW_H_
