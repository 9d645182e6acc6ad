#include "client/profile_model.h"

#include <google/protobuf/util/json_util.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/process.h"
#include "base/status.h"
#include "client/child_log.h"
#include "client/exit_codes.h"
#include "job/profile_proto.h"
#include "job/spec_proto.h"

namespace stagecoach::client {
namespace {

// How long Ctrl-C may go unnoticed.
constexpr absl::Duration kReadSlice = absl::Milliseconds(200);
constexpr absl::Duration kStopGrace = absl::Seconds(2);
constexpr int kTailLines = 10;

// A file without a name that holds `bytes`.
absl::StatusOr<int> MemoryFile(const std::string& bytes) {
  const int fd = memfd_create("stagecoach-spec", MFD_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "a file for the job spec");
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count =
        write(fd, bytes.data() + written, bytes.size() - written);
    if (count < 0) {
      const int error = errno;
      close(fd);
      return absl::ErrnoToStatus(error, "a file for the job spec");
    }
    written += static_cast<size_t>(count);
  }
  return fd;
}

absl::StatusOr<std::string> ReadAnswer(ChildProcess* worker,
                                       const Interrupt& interrupt) {
  while (true) {
    absl::StatusOr<std::string> line = worker->ReadLine(kReadSlice);
    if (line.ok() || !absl::IsDeadlineExceeded(line.status())) return line;
    if (interrupt.IsRaised()) return absl::CancelledError("interrupted");
  }
}

absl::Status FailureOf(int exit_code, const ChildLog& log) {
  const std::string message = absl::StrCat(
      "the worker that measures the model ended with exit code ", exit_code,
      "; the end of its log:\n", absl::StripSuffix(log.Tail(kTailLines), "\n"));
  return exit_code == kExitInvalid ? absl::InvalidArgumentError(message)
                                   : absl::InternalError(message);
}

}  // namespace

absl::StatusOr<job::ModelProfile> ProfileModel(const job::JobSpec& spec,
                                               const std::string& worker_binary,
                                               const Interrupt& interrupt) {
  v1::JobSpec proto;
  job::ToProto(spec, &proto);
  SC_ASSIGN_OR_RETURN(const int fd, MemoryFile(proto.SerializeAsString()));
  const absl::Cleanup closer = [fd] { close(fd); };
  SC_ASSIGN_OR_RETURN(const ChildLog log, ChildLog::Temporary());
  SpawnOptions spawn;
  spawn.program = worker_binary;
  spawn.arguments = {"--profile", absl::StrCat("/proc/", getpid(), "/fd/", fd)};
  spawn.stderr_file = log.path();
  spawn.pipe_stdout = true;
  SC_ASSIGN_OR_RETURN(ChildProcess worker, ChildProcess::Spawn(spawn));
  const absl::StatusOr<std::string> answer = ReadAnswer(&worker, interrupt);
  if (absl::IsCancelled(answer.status())) return answer.status();
  if (!answer.ok()) {
    // It has closed its output: it is ending.
    const absl::StatusOr<int> exit_code = worker.Wait(kStopGrace);
    return FailureOf(exit_code.ok() ? *exit_code : worker.Stop(kStopGrace),
                     log);
  }
  v1::ModelProfile measured;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(*answer, &measured);
  if (!parsed.ok()) {
    return absl::InternalError(
        absl::StrCat("the worker's profile cannot be read (", parsed.ToString(),
                     "): ", *answer));
  }
  return job::FromProto(measured, spec.model.layers);
}

}  // namespace stagecoach::client
