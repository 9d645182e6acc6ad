#include "client/daemon_binary.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::client {
namespace {

bool IsExecutable(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

}  // namespace

DaemonBinary CoordinatorBinary() {
  return {"stagecoach-coordinator", "coordinator",
          "STAGECOACH_COORDINATOR_BINARY"};
}

DaemonBinary WorkerBinary() {
  return {"stagecoach-worker", "stage_worker", "STAGECOACH_WORKER_BINARY"};
}

absl::StatusOr<std::string> FindDaemon(const DaemonBinary& daemon,
                                       const std::string& own_folder) {
  const char* given = std::getenv(daemon.environment.c_str());
  if (given != nullptr && *given != '\0') {
    if (IsExecutable(given)) return std::string(given);
    return absl::InternalError(
        absl::StrCat(daemon.environment, " = \"", given,
                     "\" is not an executable file; correct or unset it"));
  }
  const std::string beside = absl::StrCat(own_folder, "/", daemon.name);
  const std::string built =
      absl::StrCat(own_folder, "/../", daemon.build_folder, "/", daemon.name);
  for (const std::string& path : {beside, built}) {
    if (IsExecutable(path)) return path;
  }
  return absl::InternalError(absl::StrCat(
      "cannot find ", daemon.name, ": it is neither at ", beside, " nor at ",
      built, "; build it with `bazel build //", daemon.build_folder, ":",
      daemon.name, "` or say where it is with ", daemon.environment));
}

}  // namespace stagecoach::client
