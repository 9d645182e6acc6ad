#ifndef STAGECOACH_CLIENT_KEPT_CLUSTER_H_
#define STAGECOACH_CLIENT_KEPT_CLUSTER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cluster_record.h"
#include "client/interrupt.h"

namespace stagecoach::client {

struct UpOptions {
  std::string folder;
  int workers = 2;
  std::string coordinator_binary;
  std::string worker_binary;
  // Until all workers are registered; loading libtorch takes seconds.
  absl::Duration timeout = absl::Minutes(2);
};

// Starts a coordinator on a free loopback port and workers that outlive this
// process, and waits until all are registered. Each process is written down
// when it starts; if the start fails, all are ended and nothing is left.
// Blocks. kAlreadyExists if the folder has a cluster, or part of one,
// kCancelled on Ctrl-C, kInternal with the end of the log of a process that
// ended, kDeadlineExceeded.
absl::StatusOr<ClusterRecord> BringUp(const UpOptions& options,
                                      Interrupt* interrupt);

struct DownOptions {
  std::string folder;
  bool keep_logs = false;
  // From SIGTERM to SIGKILL: for the workers together, then for the
  // coordinator. Longer than what each takes at most by itself.
  absl::Duration grace = absl::Seconds(12);
};

struct DownResult {
  std::vector<std::string> ended;   // of those recorded, by their names
  std::vector<std::string> killed;  // among them, those that did not end alone
  std::vector<std::string> gone;    // had ended before
};

// Ends the recorded processes, and no other, and removes what `up` made.
// kNotFound if nothing is recorded.
absl::StatusOr<DownResult> TakeDown(const DownOptions& options);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_KEPT_CLUSTER_H_
