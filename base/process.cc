#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"

namespace stagecoach {
namespace {

constexpr char kParentFlag[] = "--die-with-parent=";

absl::Time Now() { return Clock::Real()->Now(); }

void CloseIfOpen(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& text : strings) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> ArgumentsOf(const SpawnOptions& options) {
  std::vector<std::string> arguments = {options.program};
  arguments.insert(arguments.end(), options.arguments.begin(),
                   options.arguments.end());
  if (options.die_with_parent) {
    arguments.push_back(absl::StrCat(kParentFlag, getpid()));
  }
  return arguments;
}

std::vector<std::string> EnvironmentOf(const SpawnOptions& options) {
  std::vector<std::string> environment;
  const auto is_replaced = [&](absl::string_view entry) {
    return std::any_of(options.environment.begin(), options.environment.end(),
                       [&](const auto& pair) {
                         return absl::StartsWith(entry,
                                                 absl::StrCat(pair.first, "="));
                       });
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_replaced(*entry)) environment.emplace_back(*entry);
  }
  for (const auto& [name, value] : options.environment) {
    environment.push_back(absl::StrCat(name, "=", value));
  }
  return environment;
}

// What posix_spawn does in the child before exec. Owns both C objects.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void OwnGroupAndDefaultSignals(bool own_session) {
    sigset_t none;
    sigemptyset(&none);
    sigset_t to_default;
    sigemptyset(&to_default);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) {
      sigaddset(&to_default, signal);
    }
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &to_default);
    // A session's first process leads a group of its own anyway.
    const int place = own_session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
    posix_spawnattr_setflags(&attributes,
                             static_cast<short>(place | POSIX_SPAWN_SETSIGMASK |
                                                POSIX_SPAWN_SETSIGDEF));
  }

  void Streams(const SpawnOptions& options, int stdin_fd, int stdout_fd) {
    if (stdin_fd >= 0) {
      posix_spawn_file_actions_adddup2(&actions, stdin_fd, STDIN_FILENO);
    } else {
      // Outside the foreground group, reading the terminal would stop the
      // child.
      posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                       O_RDONLY, 0);
    }
    if (stdout_fd >= 0) {
      posix_spawn_file_actions_adddup2(&actions, stdout_fd, STDOUT_FILENO);
    }
    if (!options.stderr_file.empty()) {
      posix_spawn_file_actions_addopen(&actions, STDERR_FILENO,
                                       options.stderr_file.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0644);
      if (options.stdout_to_stderr_file && stdout_fd < 0) {
        posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO,
                                         STDOUT_FILENO);
      }
    }
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  }

  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
};

int ExitCodeOf(int wait_status) {
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  return 128 + WTERMSIG(wait_status);
}

// waitpid, tried again when a signal handler interrupts it.
pid_t WaitPid(pid_t pid, int* wait_status, int flags) {
  pid_t result;
  do {
    result = waitpid(pid, wait_status, flags);
  } while (result < 0 && errno == EINTR);
  return result;
}

// Waits until `fd` has input or its end. False when the time is up.
bool WaitReadable(int fd, absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - Now();
    const int64_t milliseconds =
        absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)));
    pollfd entry = {fd, POLLIN, 0};
    const int timeout =
        static_cast<int>(std::clamp<int64_t>(milliseconds, 0, INT_MAX));
    const int ready = poll(&entry, 1, timeout);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (ready == 0 && left <= absl::ZeroDuration()) return false;
  }
}

// A descriptor that becomes readable when process `pid` ends, or -1. By number:
// glibc 2.36 declares pidfd_open without C linkage.
int OpenPidFd(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

// The two ends of what the child reads or writes; -1 unless asked for.
struct Stream {
  int ours = -1;
  int childs = -1;

  ~Stream() {
    CloseIfOpen(&ours);
    CloseIfOpen(&childs);
  }
};

absl::Status MakeStreams(const SpawnOptions& options, Stream* in, Stream* out) {
  int fds[2] = {-1, -1};
  // No pipe: writing to one whose reader is gone would raise SIGPIPE.
  if (options.pipe_stdin) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
      return absl::ErrnoToStatus(errno, "cannot make a child process's stdin");
    }
    in->ours = fds[0];
    in->childs = fds[1];
  }
  if (options.pipe_stdout) {
    if (pipe2(fds, O_CLOEXEC) != 0) {
      return absl::ErrnoToStatus(errno,
                                 "cannot make a pipe for a child process");
    }
    out->ours = fds[0];
    out->childs = fds[1];
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Spawn(const SpawnOptions& options) {
  Stream in;
  Stream out;
  if (absl::Status status = MakeStreams(options, &in, &out); !status.ok()) {
    return status;
  }
  SpawnPlan plan;
  plan.OwnGroupAndDefaultSignals(options.own_session);
  plan.Streams(options, in.childs, out.childs);
  const std::vector<std::string> arguments = ArgumentsOf(options);
  const std::vector<std::string> environment = EnvironmentOf(options);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, options.program.c_str(), &plan.actions,
                                &plan.attributes, Pointers(arguments).data(),
                                Pointers(environment).data());
  if (error != 0) {
    return absl::ErrnoToStatus(
        error, absl::StrCat("cannot start ", options.program,
                            options.stderr_file.empty() ? "" : " with log ",
                            options.stderr_file));
  }
  return ChildProcess(pid, std::exchange(in.ours, -1),
                      std::exchange(out.ours, -1), options.program);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept {
  *this = std::move(other);
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  KillAndReap();
  pid_ = std::exchange(other.pid_, -1);
  stdin_fd_ = std::exchange(other.stdin_fd_, -1);
  stdout_fd_ = std::exchange(other.stdout_fd_, -1);
  program_ = std::move(other.program_);
  pending_ = std::move(other.pending_);
  exit_code_ = other.exit_code_;
  return *this;
}

ChildProcess::~ChildProcess() { KillAndReap(); }

void ChildProcess::KillAndReap() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    Reap(0);
  }
  CloseIfOpen(&stdin_fd_);
  CloseIfOpen(&stdout_fd_);
}

bool ChildProcess::Reap(int flags) {
  if (pid_ < 0) return true;
  int wait_status = 0;
  const pid_t reaped = WaitPid(pid_, &wait_status, flags);
  if (reaped == 0) return false;
  // Below 0: somebody else reaped it, so that its number is not ours any more.
  exit_code_ = reaped > 0 ? ExitCodeOf(wait_status) : -1;
  pid_ = -1;
  return true;
}

absl::Status ChildProcess::ReadMore(absl::Time deadline) {
  if (stdout_fd_ < 0) {
    return absl::UnavailableError(
        absl::StrCat(program_, " has closed its output or ended"));
  }
  if (!WaitReadable(stdout_fd_, deadline)) {
    return absl::DeadlineExceededError(absl::StrCat(
        program_, " (pid ", pid_, ") printed nothing more in time"));
  }
  char buffer[65536];
  const ssize_t count = read(stdout_fd_, buffer, sizeof(buffer));
  if (count > 0) pending_.append(buffer, static_cast<size_t>(count));
  if (count == 0 || (count < 0 && errno != EINTR)) CloseIfOpen(&stdout_fd_);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ChildProcess::ReadLine(absl::Duration timeout) {
  const absl::Time deadline = Now() + timeout;
  while (true) {
    const size_t newline = pending_.find('\n');
    if (newline != std::string::npos) {
      std::string line = pending_.substr(0, newline);
      pending_.erase(0, newline + 1);
      return line;
    }
    // The end of the output is the end of its last line.
    if (stdout_fd_ < 0 && !pending_.empty()) {
      return std::exchange(pending_, std::string());
    }
    absl::Status status = ReadMore(deadline);
    if (absl::IsDeadlineExceeded(status)) {
      return absl::DeadlineExceededError(
          absl::StrCat(program_, " (pid ", pid_, ") printed no line within ",
                       absl::FormatDuration(timeout)));
    }
    if (!status.ok()) return status;
  }
}

absl::StatusOr<std::string> ChildProcess::ReadBytes(size_t bytes,
                                                    absl::Duration timeout) {
  const absl::Time deadline = Now() + timeout;
  while (pending_.size() < bytes) {
    absl::Status status = ReadMore(deadline);
    if (!status.ok()) return status;
  }
  std::string result = pending_.substr(0, bytes);
  pending_.erase(0, bytes);
  return result;
}

absl::Status ChildProcess::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        send(stdin_fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      return absl::UnavailableError(
          absl::StrCat(program_,
                       " takes no more input: it has ended, or "
                       "closed it"));
    }
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::Status ChildProcess::Signal(int signal) {
  if (pid_ < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(program_, " has ended; signal ", signal, " not sent"));
  }
  if (kill(pid_, signal) != 0) {
    return absl::ErrnoToStatus(
        errno,
        absl::StrCat("signal ", signal, " to ", program_, " (pid ", pid_, ")"));
  }
  return absl::OkStatus();
}

bool ChildProcess::HasEnded(int* exit_code) {
  if (!Reap(WNOHANG)) return false;
  *exit_code = exit_code_;
  return true;
}

absl::StatusOr<int> ChildProcess::Wait(absl::Duration timeout) {
  const absl::Time deadline = Now() + timeout;
  if (!Reap(WNOHANG)) {
    int pidfd = OpenPidFd(pid_);
    if (pidfd >= 0) {
      WaitReadable(pidfd, deadline);
      CloseIfOpen(&pidfd);
    } else {
      // A kernel or a sandbox without pidfd.
      while (Now() < deadline && !Reap(WNOHANG)) {
        absl::SleepFor(absl::Milliseconds(20));
      }
    }
  }
  if (Reap(WNOHANG)) return exit_code_;
  return absl::DeadlineExceededError(
      absl::StrCat(program_, " (pid ", pid_, ") still runs after ",
                   absl::FormatDuration(timeout)));
}

int ChildProcess::Stop(absl::Duration grace) {
  if (pid_ > 0) kill(pid_, SIGTERM);
  if (absl::StatusOr<int> code = Wait(grace); code.ok()) return *code;
  kill(pid_, SIGKILL);
  Reap(0);
  return exit_code_;
}

pid_t ChildProcess::Release() {
  CloseIfOpen(&stdin_fd_);
  CloseIfOpen(&stdout_fd_);
  return std::exchange(pid_, -1);
}

void DieWithParent(pid_t parent) {
  if (parent == 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have died before the line above; then nobody would be told.
  if (getppid() != parent) _exit(1);
}

std::string ExecutableFolder() {
  std::string path(PATH_MAX, '\0');
  const ssize_t size = readlink("/proc/self/exe", &path[0], path.size());
  path.resize(size > 0 ? static_cast<size_t>(size) : 0);
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

void OnTerminationSignal(std::function<void(int signal)> on_signal) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, on_signal = std::move(on_signal)] {
    while (true) {
      int signal = 0;
      if (sigwait(&signals, &signal) == 0) on_signal(signal);
    }
  }).detach();
}

}  // namespace stagecoach
