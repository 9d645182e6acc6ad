#ifndef STAGECOACH_CLIENT_CLUSTER_RECORD_H_
#define STAGECOACH_CLIENT_CLUSTER_RECORD_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/process_identity.h"
#include "base/tls_files.h"

namespace stagecoach::client {

struct RecordedProcess {
  std::string name;  // "coordinator", "w0"
  ProcessIdentity identity;
};

// What is written down about the cluster that `up` keeps, in a folder of its
// own: the file cluster.json, the processes' logs, and a lock.
struct ClusterRecord {
  std::string endpoint;  // empty until the coordinator has said it
  // All workers were registered. If not, `up` was killed on its way.
  bool ready = false;
  // What the coordinator and the workers were given, as absolute paths.
  TlsFiles tls;
  std::vector<RecordedProcess> processes;  // the coordinator first
};

// `given` if not empty, else STAGECOACH_DIRECTORY, else stagecoach/ in
// XDG_STATE_HOME, else ~/.local/state/stagecoach.
std::string ClusterFolder(const std::string& given);
// Of a process's log in the folder; its name decides the file's.
std::string ClusterLogFolder(const std::string& folder);

// kNotFound if no cluster is recorded; kDataLoss, naming the file, if the
// record cannot be understood.
absl::StatusOr<ClusterRecord> ReadClusterRecord(const std::string& folder);
// Replaces the record as a whole or not at all. Makes the folder, for this user
// alone, if need be.
absl::Status WriteClusterRecord(const std::string& folder,
                                const ClusterRecord& record);
// Removes the record, the logs of the processes of these names, and the folder
// of logs if it is empty then. Of other files none is touched.
void RemoveClusterFiles(const std::string& folder,
                        const std::vector<std::string>& processes);

// The recorded cluster, if it has said where it listens and that very
// coordinator runs.
std::optional<ClusterRecord> LiveCluster(const std::string& folder);

// Keeps two who would change the cluster of one folder apart. The file goes
// with the lock.
class ClusterLock {
 public:
  // kAlreadyExists if somebody has it.
  static absl::StatusOr<ClusterLock> Take(const std::string& folder);
  ClusterLock(ClusterLock&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  ClusterLock& operator=(ClusterLock&&) = delete;
  ~ClusterLock();

 private:
  ClusterLock(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_ = -1;
  std::string path_;
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_CLUSTER_RECORD_H_
