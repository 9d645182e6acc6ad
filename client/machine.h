#ifndef STAGECOACH_CLIENT_MACHINE_H_
#define STAGECOACH_CLIENT_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/finding.h"

namespace stagecoach::client {

// What `doctor` found out about this machine. An error status means that
// something did not work, and says why.
struct MachineFacts {
  absl::Status memfd;                // make, size, seal and map one
  int64_t shared_memory_bytes = -1;  // size of /dev/shm; -1: there is none
  absl::Status abstract_socket;      // listen on one
  absl::Status loopback;             // listen on 127.0.0.1 and reach it
  std::string cluster_folder;        // where `up` writes
  absl::Status cluster_folder_writable;
  int64_t available_memory_bytes = -1;
  int cores = 0;           // that this process may use
  int64_t open_files = 0;  // the limit of each process
  absl::Time wall_clock;
  bool steady_clock_moves = true;
};

// Looks. Takes no longer than a moment and leaves nothing.
MachineFacts LookAtMachine(const std::string& cluster_folder);

// The workers that are to run here.
struct Load {
  int workers = 2;
  int threads = 1;  // of each
};

// What the facts mean for that load. Pure.
std::vector<Finding> JudgeMachine(const MachineFacts& facts, const Load& load);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_MACHINE_H_
