#ifndef STAGECOACH_CLIENT_CALL_WORKER_H_
#define STAGECOACH_CLIENT_CALL_WORKER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/interrupt.h"

namespace stagecoach::client {

// A worker process that does one thing without a cluster and ends.
struct WorkerCall {
  std::string binary;
  std::string flag;     // "--profile": it takes the path of the request
  std::string request;  // bytes of the file that it reads
  std::string doing;    // "measures the model", for messages
};

// Starts it, calls `on_line` with each line of its stdout as it comes, and
// waits for its end. Blocks. kCancelled when `interrupt` is raised (the process
// has ended then, too); kInvalidArgument for what the worker finds wrong with
// the request, kInternal for everything else, both with the end of its log.
absl::Status CallWorker(const WorkerCall& call, const Interrupt& interrupt,
                        const std::function<void(const std::string&)>& on_line);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_CALL_WORKER_H_
