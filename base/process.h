#ifndef STAGECOACH_BASE_PROCESS_H_
#define STAGECOACH_BASE_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace stagecoach {

struct SpawnOptions {
  std::string program;                 // a path; no search
  std::vector<std::string> arguments;  // without argv[0]
  // Set on top of the caller's environment.
  std::vector<std::pair<std::string, std::string>> environment;
  // Where stderr goes; empty: inherited. Appended to.
  std::string stderr_file;
  // stdout is a pipe that ReadLine reads; otherwise it goes where stderr goes
  // if `stdout_to_stderr_file`, else it is inherited.
  bool pipe_stdout = false;
  // stdin is what Write sends; otherwise it is empty.
  bool pipe_stdin = false;
  bool stdout_to_stderr_file = false;
  // Adds `--die-with-parent=<our pid>`; false for programs that do not know it.
  bool die_with_parent = true;
  // A session of its own: the end of our terminal does not reach it. For
  // children that are to outlive us (see Release).
  bool own_session = false;
};

// A child process started by posix_spawn (safe after gRPC has started, fork is
// not) in a process group of its own, so that Ctrl-C at the terminal reaches
// only the parent. The child is told to die with this process by the flag
// `--die-with-parent=<our pid>`, which every Stagecoach daemon understands (see
// DieWithParent). Signals go to this recorded process only, and never after it
// was reaped. Thread-compatible. The destructor kills and reaps.
//
// The child inherits no descriptor but stdin, stdout and stderr.
class ChildProcess {
 public:
  // Call it on a thread that lives as long as the child should: the kernel
  // counts the end of the thread that started a child as its parent's death.
  // kNotFound, kPermissionDenied, ... if the program cannot be started.
  static absl::StatusOr<ChildProcess> Spawn(const SpawnOptions& options);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // One line of stdout without its newline. kDeadlineExceeded after `timeout`,
  // kUnavailable when the child closed it or ended (what it printed before
  // comes first), or when stdout is not piped.
  absl::StatusOr<std::string> ReadLine(absl::Duration timeout);
  // `bytes` bytes of stdout. As ReadLine; what came before the end, if that is
  // too little, is lost.
  absl::StatusOr<std::string> ReadBytes(size_t bytes, absl::Duration timeout);
  // Sends all of `bytes` to the child's stdin. Blocks until it has taken what
  // the kernel does not hold. kUnavailable if it closed it or ended, or if
  // stdin is not piped.
  absl::Status Write(absl::string_view bytes);
  // kFailedPrecondition once reaped.
  absl::Status Signal(int signal);
  // Whether it ended; reaps it then. `exit_code` is 128 + n for signal n.
  bool HasEnded(int* exit_code);
  // Waits at most `timeout`; kDeadlineExceeded if it still runs.
  absl::StatusOr<int> Wait(absl::Duration timeout);
  // SIGTERM, `grace`, then SIGKILL (which ends a stopped process too); reaps.
  int Stop(absl::Duration grace);
  // Lets the child go: it is neither ended nor reaped by this object any more,
  // and its output is not read. Its id; -1 if it was reaped already.
  pid_t Release();

 private:
  ChildProcess(pid_t pid, int stdin_fd, int stdout_fd, std::string program)
      : pid_(pid),
        stdin_fd_(stdin_fd),
        stdout_fd_(stdout_fd),
        program_(std::move(program)) {}
  // Adds to `pending_`. Errors as ReadLine's.
  absl::Status ReadMore(absl::Time deadline);
  // waitpid with `flags`; true once the child is reaped.
  bool Reap(int flags);
  void KillAndReap();

  pid_t pid_ = -1;  // -1: moved from or reaped
  int stdin_fd_ = -1;
  int stdout_fd_ = -1;
  std::string program_;
  std::string pending_;  // stdout read past the last line
  int exit_code_ = -1;
};

// Called first in a daemon's main with the value of --die-with-parent: the
// kernel kills this process when its parent dies, even if it is stopped. Exits
// at once if the parent is gone already. 0: does nothing.
void DieWithParent(pid_t parent);

// The folder of the running executable.
std::string ExecutableFolder();

// Runs `on_signal` on a thread of its own for the first SIGINT or SIGTERM, and
// again for each further one. Call before any other thread is started (it
// blocks these signals in the calling thread, which others inherit). Lives for
// ever.
void OnTerminationSignal(std::function<void(int signal)> on_signal);

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_PROCESS_H_
