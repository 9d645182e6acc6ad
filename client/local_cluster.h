#ifndef STAGECOACH_CLIENT_LOCAL_CLUSTER_H_
#define STAGECOACH_CLIENT_LOCAL_CLUSTER_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/process.h"
#include "client/child_log.h"
#include "client/interrupt.h"

namespace stagecoach::client {

// The end of a process of a local cluster that nobody asked for.
struct ChildExit {
  std::string name;  // "coordinator", "w1"
  bool is_coordinator = false;
  int exit_code = 0;  // 128 + n for signal n
};

// "worker w1 ended with exit code 2", "the coordinator was ended by signal 9".
std::string ToString(const ChildExit& exit);

// "coordinator", "w0", "w1", ...: the processes of a local cluster, in the
// order of their starts.
std::vector<std::string> LocalProcessNames(int workers);

struct LocalClusterOptions {
  std::string coordinator_binary;
  std::string worker_binary;
  int workers = 1;
  // Where logs are kept; empty: nowhere.
  std::string log_folder;
  // Until the coordinator says where it listens.
  absl::Duration start_timeout = absl::Seconds(20);
  // From SIGTERM to SIGKILL, for all processes together. Short, for nothing is
  // lost by a kill: what a worker holds goes with it.
  absl::Duration stop_grace = absl::Seconds(2);
  // The processes have sessions of their own and do not die with the client:
  // for clusters that are released.
  bool outlives_client = false;
  // Called for each process right after it was started; an error ends the
  // start.
  std::function<absl::Status(const std::string& name, pid_t pid)> on_start;
};

// A private coordinator on a free loopback port and workers w0, w1, ... on this
// machine, for one client. They die with the client, however it ends, and
// leave no files, unless the options say otherwise. Start, Stop and destructor
// on one thread, which has to live as long as the cluster (see ChildProcess);
// the rest is thread-safe.
class LocalCluster {
 public:
  // TLS, of the processes and from now on of this one, too, as the environment
  // says. Blocks until the coordinator listens; workers may still be on their
  // way to it. The end of any process raises kChildEnded on `interrupt`, which
  // must outlive the cluster; kUser ends the start with kCancelled. kInternal
  // with the last lines of the log if a process cannot be started.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(
      const LocalClusterOptions& options, Interrupt* interrupt);
  ~LocalCluster();  // Stop()
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;

  // Of the coordinator: "127.0.0.1:41234".
  const std::string& address() const { return address_; }

  // The processes that ended by themselves and were not started again, the
  // first of them first.
  std::vector<ChildExit> Exits() const SC_EXCLUDES(mu_);
  std::optional<ChildExit> FirstExit() const SC_EXCLUDES(mu_);
  // Starts a worker that has ended again, under its name; its log goes on. On
  // the thread of Start.
  absl::Status RestartWorker(const std::string& name) SC_EXCLUDES(mu_);

  // The last lines that a process wrote to stderr; empty for an unknown name.
  std::string LogTail(absl::string_view name, int lines) const;

  // Ends all processes, the workers first: SIGTERM, then SIGKILL, which ends
  // stopped ones too. Bounded by twice the grace. Idempotent.
  void Stop() SC_EXCLUDES(mu_);
  // Lets all processes go: they run on without this object.
  void Release() SC_EXCLUDES(mu_);

 private:
  struct Child {
    Child(std::string child_name, ChildLog child_log)
        : name(std::move(child_name)), log(std::move(child_log)) {}
    const std::string name;
    const ChildLog log;
    std::optional<ChildProcess> process;
    bool ended = false;
  };

  LocalCluster(LocalClusterOptions options, Interrupt* interrupt)
      : options_(std::move(options)), interrupt_(interrupt) {}

  absl::Status StartCoordinator();
  absl::Status StartWorkers();
  std::vector<std::string> WorkerArguments(const std::string& name) const;
  absl::Status Spawn(const std::string& name, const std::string& program,
                     std::vector<std::string> arguments);
  absl::StatusOr<ChildProcess> SpawnProcess(
      const Child& child, const std::string& program,
      std::vector<std::string> arguments) const;
  absl::StatusOr<std::string> ReadAddress(Child* coordinator);
  absl::Status StartError(const Child& child, const std::string& what) const;
  void Monitor() SC_EXCLUDES(mu_);
  bool FindExit() SC_REQUIRES(mu_);
  void StopMonitor() SC_EXCLUDES(mu_);
  void StopChildren(size_t begin, size_t end);

  const LocalClusterOptions options_;
  Interrupt* const interrupt_;
  std::string address_;
  // The coordinator, then the workers. The list does not change after Start;
  // the processes in it are guarded by mu_ once the monitor runs.
  std::vector<std::unique_ptr<Child>> children_;
  std::thread monitor_;
  mutable Mutex mu_;
  CondVar stop_changed_;
  bool stopping_ SC_GUARDED_BY(mu_) = false;
  std::vector<ChildExit> exits_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_LOCAL_CLUSTER_H_
