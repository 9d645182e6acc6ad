#ifndef STAGECOACH_TESTS_CLUSTER_CLUSTER_H_
#define STAGECOACH_TESTS_CLUSTER_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/process.h"

namespace stagecoach::testing {

using Environment = std::vector<std::pair<std::string, std::string>>;

// What a finished command left.
// NOLINTNEXTLINE(bugprone-exception-escape): of json's destructor.
struct CommandResult {
  int exit_code = -1;
  std::string out;
  std::string err;
  // Of `out`; null where it is none.
  nlohmann::json json;
};

// A folder that is removed, with what is in it, at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::string& path() const { return path_; }
  // Writes a file into it and returns its path.
  std::string Write(const std::string& name, const std::string& contents) const;

 private:
  std::string path_;
};

// The programs under test.
std::string ClientBinary();
std::string CoordinatorBinary();
std::string WorkerBinary();
// The worker with faults that WorkerFaults in faulty_worker.cc lists.
std::string FaultyWorkerBinary();

// Runs the `stagecoach` command to its end, or kills it after `timeout`
// (exit code 137 then).
CommandResult RunClient(const std::vector<std::string>& arguments,
                        const Environment& environment = {},
                        absl::Duration timeout = absl::Minutes(5));
// Starts it in the background, its stdout in a pipe.
absl::StatusOr<ChildProcess> StartClient(
    const std::vector<std::string>& arguments, const std::string& stderr_file,
    const Environment& environment = {});

// Certificates of one authority in `folder`, as users make them: one for each
// name, which may be an address. False if it cannot be done.
bool MakeCertificates(const std::string& folder,
                      const std::vector<std::string>& names);
// The flags of a program that shows the one of `name`.
std::vector<std::string> TlsFlags(const std::string& folder,
                                  const std::string& name);

// Real coordinator and worker processes on this machine, started one by one as
// a user would by hand. Destroyed: all are stopped.
class Cluster {
 public:
  struct WorkerSpec {
    std::string binary;  // empty: WorkerBinary()
    Environment environment;
    std::vector<std::string> arguments;
  };

  static absl::StatusOr<std::unique_ptr<Cluster>> Start(
      const std::vector<WorkerSpec>& workers);
  // `count` plain workers.
  static absl::StatusOr<std::unique_ptr<Cluster>> Start(int count);
  // With a coordinator that keeps its journal in data_directory(), and in its
  // environment, and among its arguments, what is given.
  static absl::StatusOr<std::unique_ptr<Cluster>> StartDurable(
      const std::vector<WorkerSpec>& workers,
      const Environment& coordinator = {},
      const std::vector<std::string>& arguments = {});
  ~Cluster();

  std::string data_directory() const { return folder_.path() + "/data"; }
  // Ends the coordinator by SIGKILL, unless it has ended by itself. Returns its
  // exit code.
  int KillCoordinator();
  // Starts it again where it was, without what it had in its environment.
  absl::Status RestartCoordinator();

  const std::string& address() const { return address_; }
  // Ends worker i by SIGKILL, unless it has ended by itself.
  void KillWorker(int index);
  // Starts a worker that has ended again, under its name and as it was, but for
  // a failpoint.
  absl::Status RestartWorker(int index);

  // Worker i is named "w<i>".
  ChildProcess& worker(int index) {
    return workers_[static_cast<size_t>(index)];
  }
  ChildProcess& coordinator() { return *coordinator_; }
  // Everything on stderr of all processes so far, for failure messages.
  std::string Logs() const;

  // `stagecoach --endpoint <ours> -o json ARGUMENTS`.
  CommandResult Command(std::vector<std::string> arguments,
                        absl::Duration timeout = absl::Minutes(5)) const;
  // Submits the spec, waits for its end and returns `job show`'s document.
  nlohmann::json RunJob(const std::string& spec_file,
                        const std::vector<std::string>& settings = {}) const;
  // Submits and returns the job's id.
  std::string Submit(const std::string& spec_file,
                     const std::vector<std::string>& settings = {}) const;

 private:
  Cluster() = default;
  absl::Status SpawnCoordinator(const Environment& environment);
  absl::Status SpawnWorkers(const std::vector<WorkerSpec>& workers);
  absl::StatusOr<ChildProcess> SpawnWorker(size_t index) const;

  TemporaryFolder folder_;
  std::vector<WorkerSpec> specs_;
  bool durable_ = false;
  std::vector<std::string> coordinator_arguments_;
  std::string address_;
  std::optional<ChildProcess> coordinator_;
  std::vector<ChildProcess> workers_;
};

// Of a job that succeeded: the losses and norms of its steps from `first_step`
// on and the hash of its parameters, so that equal texts are runs equal to the
// bit. Throws nlohmann's exception if the job did not get that far.
std::string BitsOf(const nlohmann::json& job, int64_t first_step = 0);

// A small GPT's job spec; `overrides` are "key=value" lines of --set.
struct TinyJob {
  int layers = 8;
  int hidden = 32;
  int heads = 4;
  int sequence = 16;
  int microbatches = 8;
  int microbatch_size = 2;
  int steps = 3;
  int workers = 4;
  int stages_per_worker = 1;
  // In TOML. "auto" depends on measured times: two runs may differ in it.
  std::string split = "\"auto\"";
  std::string schedule = "1f1b";
  std::string release = "ack";
  int send_budget = 2;
  bool tied = true;
  int max_failures = 0;

  // A list for `split`.
  std::string EvenSplit() const;
  std::string ToToml(const std::string& data_path) const;
};

// Some pages of text with structure to learn.
std::string SampleText();

}  // namespace stagecoach::testing

#endif  // STAGECOACH_TESTS_CLUSTER_CLUSTER_H_
