#include "client/kept_cluster.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/tls_files.h"
#include "client/job_client.h"
#include "client/local_cluster.h"

namespace stagecoach::client {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(100);
constexpr int kTailLines = 10;

absl::Time Now() { return Clock::Real()->Now(); }

std::vector<std::string> NamesOfEnded(const ClusterRecord& record) {
  std::vector<std::string> names;
  for (const RecordedProcess& process : record.processes) {
    if (!IsRunning(process.identity)) names.push_back(process.name);
  }
  return names;
}

// Other commands have other working directories.
TlsFiles AbsolutePaths(TlsFiles files) {
  for (std::string* path : {&files.authority, &files.certificate, &files.key}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path).string();
  }
  return files;
}

std::vector<std::string> NamesOf(const ClusterRecord& record) {
  std::vector<std::string> names;
  for (const RecordedProcess& process : record.processes) {
    names.push_back(process.name);
  }
  return names;
}

// OK if the folder is free for a new cluster.
absl::Status CheckFree(const std::string& folder) {
  const absl::StatusOr<ClusterRecord> record = ReadClusterRecord(folder);
  if (absl::IsNotFound(record.status())) return absl::OkStatus();
  SC_RETURN_IF_ERROR(record.status());
  const std::vector<std::string> ended = NamesOfEnded(*record);
  if (ended.size() == record->processes.size()) {
    // The machine was restarted, or somebody ended them all.
    RemoveClusterFiles(folder, NamesOf(*record));
    return absl::OkStatus();
  }
  if (ended.empty() && record->ready) {
    return absl::AlreadyExistsError(
        absl::StrCat("a local cluster of ", record->processes.size() - 1,
                     " workers is up already at ", record->endpoint,
                     "; use it, or end it with `stagecoach down`"));
  }
  return absl::AlreadyExistsError(absl::StrCat(
      "a local cluster is up only in part (",
      ended.empty() ? "its start was interrupted"
                    : absl::StrCat(absl::StrJoin(ended, ", "), " ended"),
      "); `stagecoach down`, then `up` again"));
}

absl::Status WhyInterrupted(const LocalCluster& cluster, Interrupt* interrupt) {
  if (interrupt->Take(Interrupt::Reason::kUser)) {
    return absl::CancelledError("interrupted; nothing is left");
  }
  const std::optional<ChildExit> exit = cluster.FirstExit();
  if (!exit.has_value()) return absl::InternalError("a process ended");
  const std::string tail = cluster.LogTail(exit->name, kTailLines);
  return absl::InternalError(absl::StrCat(
      ToString(*exit), tail.empty() ? "" : "; the end of its log:\n",
      absl::StripSuffix(tail, "\n")));
}

// Until the coordinator counts `count` workers.
absl::Status WaitForWorkers(const LocalCluster& cluster, int count,
                            absl::Time deadline, Interrupt* interrupt) {
  JobClient client(cluster.address());
  int registered = 0;
  absl::Status last;
  while (Now() < deadline) {
    const absl::StatusOr<v1::ListWorkersResponse> response = client.Workers();
    last = response.status();
    if (response.ok()) registered = response->workers_size();
    if (registered >= count) return absl::OkStatus();
    if (interrupt->WaitFor(kPollInterval)) {
      return WhyInterrupted(cluster, interrupt);
    }
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "only ", registered, " of ", count, " workers registered in time",
      last.ok() ? "" : absl::StrCat("; ", last.message())));
}

// Ends those of `processes` that run; SIGKILL for who does not by itself.
absl::Status EndAll(const std::vector<RecordedProcess>& processes,
                    absl::Duration grace, DownResult* result) {
  std::vector<std::pair<std::string, ForeignProcess>> running;
  for (const RecordedProcess& process : processes) {
    absl::StatusOr<ForeignProcess> opened =
        ForeignProcess::Open(process.identity);
    if (absl::IsNotFound(opened.status())) {
      result->gone.push_back(process.name);
      continue;
    }
    SC_RETURN_IF_ERROR(opened.status());
    // An error says that it has ended just now.
    opened->Signal(SIGTERM).IgnoreError();
    running.emplace_back(process.name, *std::move(opened));
  }
  const absl::Time deadline = Now() + grace;
  for (auto& [name, process] : running) {
    result->ended.push_back(name);
    if (process.WaitForEnd(std::max(deadline - Now(), absl::ZeroDuration()))) {
      continue;
    }
    result->killed.push_back(name);
    process.Signal(SIGKILL).IgnoreError();
    if (!process.WaitForEnd(grace)) {
      return absl::InternalError(absl::StrCat(
          name, " does not end, not even by SIGKILL; its record stays"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ClusterRecord> BringUp(const UpOptions& options,
                                      Interrupt* interrupt) {
  SC_ASSIGN_OR_RETURN(const ClusterLock lock,
                      ClusterLock::Take(options.folder));
  SC_RETURN_IF_ERROR(CheckFree(options.folder));
  ClusterRecord record;
  // Runs last: the cluster's own end comes before. Whose process could not be
  // started, or ended before it was written down, has a log, too.
  auto remove_files = absl::MakeCleanup([&] {
    RemoveClusterFiles(options.folder, LocalProcessNames(options.workers));
  });
  LocalClusterOptions local;
  local.coordinator_binary = options.coordinator_binary;
  local.worker_binary = options.worker_binary;
  local.workers = options.workers;
  local.log_folder = ClusterLogFolder(options.folder);
  local.outlives_client = true;
  local.on_start = [&](const std::string& name, pid_t pid) -> absl::Status {
    absl::StatusOr<ProcessIdentity> identity = IdentityOf(pid);
    // It ended at once: its log will say why.
    if (absl::IsNotFound(identity.status())) return absl::OkStatus();
    SC_RETURN_IF_ERROR(identity.status());
    record.processes.push_back({name, *std::move(identity)});
    return WriteClusterRecord(options.folder, record);
  };
  const absl::Time deadline = Now() + options.timeout;
  SC_ASSIGN_OR_RETURN(const std::unique_ptr<LocalCluster> cluster,
                      LocalCluster::Start(local, interrupt));
  record.endpoint = cluster->address();
  record.tls = AbsolutePaths(TlsFilesOfEnvironment());
  SC_RETURN_IF_ERROR(
      WaitForWorkers(*cluster, options.workers, deadline, interrupt));
  record.ready = true;
  SC_RETURN_IF_ERROR(WriteClusterRecord(options.folder, record));
  cluster->Release();
  std::move(remove_files).Cancel();
  return record;
}

absl::StatusOr<DownResult> TakeDown(const DownOptions& options) {
  // Looking must not make the folder.
  SC_RETURN_IF_ERROR(ReadClusterRecord(options.folder).status());
  SC_ASSIGN_OR_RETURN(const ClusterLock lock,
                      ClusterLock::Take(options.folder));
  SC_ASSIGN_OR_RETURN(const ClusterRecord record,
                      ReadClusterRecord(options.folder));
  DownResult result;
  // Workers first: they end by themselves, not for want of a coordinator.
  std::vector<RecordedProcess> workers = record.processes;
  std::vector<RecordedProcess> coordinator;
  if (!workers.empty()) {
    coordinator.push_back(workers.front());
    workers.erase(workers.begin());
  }
  SC_RETURN_IF_ERROR(EndAll(workers, options.grace, &result));
  SC_RETURN_IF_ERROR(EndAll(coordinator, options.grace, &result));
  RemoveClusterFiles(options.folder, options.keep_logs
                                         ? std::vector<std::string>()
                                         : NamesOf(record));
  return result;
}

}  // namespace stagecoach::client
