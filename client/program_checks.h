#ifndef STAGECOACH_CLIENT_PROGRAM_CHECKS_H_
#define STAGECOACH_CLIENT_PROGRAM_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/daemon_binary.h"
#include "client/finding.h"

namespace stagecoach::client {

// Runs a program to its end; what it printed on stdout. kInternal with its
// words if it ends otherwise than with 0, kDeadlineExceeded. Blocks.
absl::StatusOr<std::string> OutputOf(const std::string& program,
                                     const std::vector<std::string>& arguments,
                                     absl::Duration timeout);

// The program is where a local cluster looks for it and of our version and
// protocol.
Finding CheckProgram(const DaemonBinary& daemon, const std::string& own_folder);
// The worker loads libtorch, and a GPU if there is one.
std::vector<Finding> CheckEngines(const std::string& own_folder);
// The libraries of the data path between GPUs.
Finding CheckNccl();

// Of the words of `--version`: "stagecoach-worker 0.1.0 (protocol 1)".
Finding JudgeVersion(const std::string& program, const std::string& path,
                     const std::string& words);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_PROGRAM_CHECKS_H_
