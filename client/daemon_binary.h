#ifndef STAGECOACH_CLIENT_DAEMON_BINARY_H_
#define STAGECOACH_CLIENT_DAEMON_BINARY_H_

#include <string>

#include "absl/status/statusor.h"

namespace stagecoach::client {

// A program that the client starts, and where it may be.
struct DaemonBinary {
  std::string name;          // "stagecoach-worker"
  std::string build_folder;  // its folder in the build tree: "stage_worker"
  std::string environment;   // "STAGECOACH_WORKER_BINARY": a path, comes first
};

DaemonBinary CoordinatorBinary();
DaemonBinary WorkerBinary();

// The path of an executable file: what the environment variable says, else
// beside `own_folder`'s files (an installation), else in the build tree, where
// `own_folder` is the client's. kInternal names the places and what would help.
absl::StatusOr<std::string> FindDaemon(const DaemonBinary& daemon,
                                       const std::string& own_folder);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_DAEMON_BINARY_H_
