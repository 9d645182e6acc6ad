#include "client/local_cluster.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/tls_files.h"
#include "rpc/tls_flags.h"

namespace stagecoach::client {
namespace {

// How often the monitor looks for children that ended.
constexpr absl::Duration kMonitorInterval = absl::Milliseconds(100);
// How long a wait for a line may keep Ctrl-C from being noticed.
constexpr absl::Duration kReadSlice = absl::Milliseconds(200);
constexpr int kTailLines = 10;
constexpr char kCoordinatorName[] = "coordinator";

absl::Time Now() { return Clock::Real()->Now(); }

std::string PeopleName(absl::string_view name) {
  return name == kCoordinatorName ? "the coordinator"
                                  : absl::StrCat("worker ", name);
}

std::string EndOf(int exit_code) {
  if (exit_code > 128) {
    return absl::StrCat("was ended by signal ", exit_code - 128);
  }
  return absl::StrCat("ended with exit code ", exit_code);
}

}  // namespace

std::string ToString(const ChildExit& exit) {
  return absl::StrCat(PeopleName(exit.name), " ", EndOf(exit.exit_code));
}

std::vector<std::string> LocalProcessNames(int workers) {
  std::vector<std::string> names = {kCoordinatorName};
  for (int i = 0; i < workers; ++i) names.push_back(absl::StrCat("w", i));
  return names;
}

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(
    const LocalClusterOptions& options, Interrupt* interrupt) {
  SC_RETURN_IF_ERROR(rpc::UseTlsOf(TlsFilesOfEnvironment()));
  std::unique_ptr<LocalCluster> cluster(new LocalCluster(options, interrupt));
  SC_RETURN_IF_ERROR(cluster->StartCoordinator());
  SC_RETURN_IF_ERROR(cluster->StartWorkers());
  cluster->monitor_ = std::thread([raw = cluster.get()] { raw->Monitor(); });
  return cluster;
}

LocalCluster::~LocalCluster() { Stop(); }

absl::Status LocalCluster::StartCoordinator() {
  SC_RETURN_IF_ERROR(Spawn(kCoordinatorName, options_.coordinator_binary,
                           {"--listen", "127.0.0.1:0"}));
  SC_ASSIGN_OR_RETURN(address_, ReadAddress(children_.front().get()));
  return absl::OkStatus();
}

absl::Status LocalCluster::StartWorkers() {
  for (const std::string& name : LocalProcessNames(options_.workers)) {
    if (name == kCoordinatorName) continue;
    SC_RETURN_IF_ERROR(
        Spawn(name, options_.worker_binary, WorkerArguments(name)));
  }
  return absl::OkStatus();
}

std::vector<std::string> LocalCluster::WorkerArguments(
    const std::string& name) const {
  return {"--coordinator", address_, "--name", name};
}

absl::Status LocalCluster::Spawn(const std::string& name,
                                 const std::string& program,
                                 std::vector<std::string> arguments) {
  absl::StatusOr<ChildLog> log =
      options_.log_folder.empty() ? ChildLog::Temporary()
                                  : ChildLog::Kept(options_.log_folder, name);
  if (!log.ok()) return log.status();
  auto child = std::make_unique<Child>(name, *std::move(log));
  SC_ASSIGN_OR_RETURN(child->process,
                      SpawnProcess(*child, program, std::move(arguments)));
  const pid_t pid = child->process->pid();
  children_.push_back(std::move(child));
  return options_.on_start == nullptr ? absl::OkStatus()
                                      : options_.on_start(name, pid);
}

absl::StatusOr<ChildProcess> LocalCluster::SpawnProcess(
    const Child& child, const std::string& program,
    std::vector<std::string> arguments) const {
  SpawnOptions spawn;
  spawn.program = program;
  spawn.arguments = std::move(arguments);
  spawn.stderr_file = child.log.path();
  // The client's own stdout is for results. What a worker prints belongs to its
  // log: a pipe would break under it once this process is gone.
  spawn.pipe_stdout = child.name == kCoordinatorName;
  spawn.stdout_to_stderr_file = true;
  spawn.die_with_parent = !options_.outlives_client;
  spawn.own_session = options_.outlives_client;
  absl::StatusOr<ChildProcess> process = ChildProcess::Spawn(spawn);
  if (!process.ok()) return absl::InternalError(process.status().message());
  return process;
}

absl::Status LocalCluster::RestartWorker(const std::string& name) {
  for (const auto& child : children_) {
    if (child->name != name) continue;
    SC_ASSIGN_OR_RETURN(
        ChildProcess process,
        SpawnProcess(*child, options_.worker_binary, WorkerArguments(name)));
    const pid_t pid = process.pid();
    {
      MutexLock lock(&mu_);
      child->process = std::move(process);
      child->ended = false;
      exits_.erase(std::remove_if(exits_.begin(), exits_.end(),
                                  [&](const ChildExit& exit) {
                                    return exit.name == name;
                                  }),
                   exits_.end());
    }
    return options_.on_start == nullptr ? absl::OkStatus()
                                        : options_.on_start(name, pid);
  }
  return absl::NotFoundError(absl::StrCat("there is no worker ", name));
}

absl::StatusOr<std::string> LocalCluster::ReadAddress(Child* coordinator) {
  const absl::Time deadline = Now() + options_.start_timeout;
  while (Now() < deadline) {
    if (interrupt_->IsRaised()) return absl::CancelledError("interrupted");
    const absl::StatusOr<std::string> line =
        coordinator->process->ReadLine(std::min(kReadSlice, deadline - Now()));
    if (line.ok()) {
      absl::string_view address = *line;
      if (absl::ConsumePrefix(&address, "listening on ")) {
        return std::string(address);
      }
    } else if (!absl::IsDeadlineExceeded(line.status())) {
      const int exit_code = coordinator->process->Stop(options_.stop_grace);
      return StartError(*coordinator, EndOf(exit_code));
    }
  }
  return StartError(*coordinator,
                    absl::StrCat("did not say where it listens within ",
                                 absl::FormatDuration(options_.start_timeout)));
}

absl::Status LocalCluster::StartError(const Child& child,
                                      const std::string& what) const {
  const std::string tail = child.log.Tail(kTailLines);
  return absl::InternalError(
      absl::StrCat(PeopleName(child.name), " ", what,
                   tail.empty() ? "" : "; the end of its log:\n",
                   absl::StripSuffix(tail, "\n")));
}

std::vector<ChildExit> LocalCluster::Exits() const {
  MutexLock lock(&mu_);
  return exits_;
}

std::optional<ChildExit> LocalCluster::FirstExit() const {
  const std::vector<ChildExit> exits = Exits();
  if (exits.empty()) return std::nullopt;
  return exits.front();
}

std::string LocalCluster::LogTail(absl::string_view name, int lines) const {
  for (const auto& child : children_) {
    if (child->name == name) return child->log.Tail(lines);
  }
  return "";
}

void LocalCluster::Monitor() {
  while (true) {
    bool found = false;
    {
      MutexLock lock(&mu_);
      if (stopping_) return;
      found = FindExit();
      if (!found) stop_changed_.WaitFor(&mu_, kMonitorInterval);
    }
    // Not under the lock: it may call back.
    if (found) interrupt_->Raise(Interrupt::Reason::kChildEnded);
  }
}

bool LocalCluster::FindExit() {
  bool found = false;
  for (const auto& child : children_) {
    int exit_code = 0;
    if (child->ended || !child->process->HasEnded(&exit_code)) continue;
    child->ended = true;
    found = true;
    exits_.emplace_back();
    exits_.back().name = child->name;
    exits_.back().is_coordinator = child->name == kCoordinatorName;
    exits_.back().exit_code = exit_code;
  }
  return found;
}

void LocalCluster::StopMonitor() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    stop_changed_.NotifyAll();
  }
  if (monitor_.joinable()) monitor_.join();
}

void LocalCluster::Release() {
  StopMonitor();
  for (const auto& child : children_) child->process->Release();
  children_.clear();
}

void LocalCluster::Stop() {
  StopMonitor();
  // Workers first, so that the coordinator does not take their end for a loss
  // of its own connections.
  StopChildren(1, children_.size());
  StopChildren(0, std::min<size_t>(1, children_.size()));
}

// The monitor has ended: this thread is alone with the processes.
void LocalCluster::StopChildren(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    // An error says that it has ended already.
    children_[i]->process->Signal(SIGTERM).IgnoreError();
  }
  const absl::Time deadline = Now() + options_.stop_grace;
  for (size_t i = begin; i < end; ++i) {
    ChildProcess& process = *children_[i]->process;
    // Not Stop(): a daemon may take a second SIGTERM for impatience.
    if (process.Wait(std::max(deadline - Now(), absl::ZeroDuration())).ok()) {
      continue;
    }
    process.Signal(SIGKILL).IgnoreError();
    process.Wait(options_.stop_grace).status().IgnoreError();
  }
}

}  // namespace stagecoach::client
