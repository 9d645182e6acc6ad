#include "client/call_worker.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/process.h"
#include "base/status.h"
#include "client/child_log.h"
#include "client/exit_codes.h"

namespace stagecoach::client {
namespace {

// How long Ctrl-C may go unnoticed.
constexpr absl::Duration kReadSlice = absl::Milliseconds(200);
constexpr absl::Duration kStopGrace = absl::Seconds(2);
constexpr int kTailLines = 10;

// A file without a name that holds `bytes`.
absl::StatusOr<int> MemoryFile(const std::string& bytes) {
  const int fd = memfd_create("stagecoach-request", MFD_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "a file for the worker");
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count =
        write(fd, bytes.data() + written, bytes.size() - written);
    if (count < 0) {
      const int error = errno;
      close(fd);
      return absl::ErrnoToStatus(error, "a file for the worker");
    }
    written += static_cast<size_t>(count);
  }
  return fd;
}

// Until it closes its output, which is when it ends.
absl::Status ReadLines(ChildProcess* worker, const Interrupt& interrupt,
                       const std::function<void(const std::string&)>& on_line) {
  while (!interrupt.IsRaised()) {
    const absl::StatusOr<std::string> line = worker->ReadLine(kReadSlice);
    if (line.ok()) {
      on_line(*line);
    } else if (!absl::IsDeadlineExceeded(line.status())) {
      return absl::OkStatus();
    }
  }
  worker->Stop(kStopGrace);
  return absl::CancelledError("interrupted");
}

absl::Status ResultOf(const WorkerCall& call, int exit_code,
                      const ChildLog& log) {
  if (exit_code == kExitDone) return absl::OkStatus();
  const std::string message = absl::StrCat(
      "the worker that ", call.doing, " ended with exit code ", exit_code,
      "; the end of its log:\n", absl::StripSuffix(log.Tail(kTailLines), "\n"));
  return exit_code == kExitInvalid ? absl::InvalidArgumentError(message)
                                   : absl::InternalError(message);
}

}  // namespace

absl::Status CallWorker(
    const WorkerCall& call, const Interrupt& interrupt,
    const std::function<void(const std::string&)>& on_line) {
  SC_ASSIGN_OR_RETURN(const int fd, MemoryFile(call.request));
  const absl::Cleanup closer = [fd] { close(fd); };
  SC_ASSIGN_OR_RETURN(const ChildLog log, ChildLog::Temporary());
  SpawnOptions spawn;
  spawn.program = call.binary;
  spawn.arguments = {call.flag, absl::StrCat("/proc/", getpid(), "/fd/", fd)};
  spawn.stderr_file = log.path();
  spawn.pipe_stdout = true;
  SC_ASSIGN_OR_RETURN(ChildProcess worker, ChildProcess::Spawn(spawn));
  SC_RETURN_IF_ERROR(ReadLines(&worker, interrupt, on_line));
  const absl::StatusOr<int> exit_code = worker.Wait(kStopGrace);
  return ResultOf(call, exit_code.ok() ? *exit_code : worker.Stop(kStopGrace),
                  log);
}

}  // namespace stagecoach::client
