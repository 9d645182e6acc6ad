#ifndef STAGECOACH_CLIENT_RUN_JOB_H_
#define STAGECOACH_CLIENT_RUN_JOB_H_

#include <string>

#include "client/context.h"
#include "client/interrupt.h"
#include "job/job_spec.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach::client {

struct RunOptions {
  // On a private cluster of `pipeline.workers` workers, which is gone
  // afterwards; else on the coordinator of the context.
  bool local = false;
  bool resume = false;     // go on from the newest sound checkpoint
  std::string log_folder;  // of the private cluster; empty: logs are not kept
};

// What became of a job.
struct RunOutcome {
  v1::Job job;  // as far as it is known; without an id if there was none
  int exit_code = 0;
  std::string message;  // why it did not succeed, for people
  std::string details;  // ends of logs, for people
};

// Submits a job, shows its progress on stderr, waits for its end. An interrupt
// cancels the job. Blocks; call it on a thread that lives as long as the
// process (see LocalCluster).
RunOutcome RunJob(const job::JobSpec& spec, const RunOptions& options,
                  Interrupt* interrupt, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_RUN_JOB_H_
