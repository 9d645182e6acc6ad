#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

absl::Status Failure(int error, const std::string& path) {
  if (error == EISDIR) {
    return absl::FailedPreconditionError(
        absl::StrCat("\"", path, "\" is a folder, not a file"));
  }
  return absl::ErrnoToStatus(error, absl::StrCat("cannot read \"", path, "\""));
}

absl::Status TooLong(const std::string& path, int64_t max_bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("\"", path, "\" is longer than ", max_bytes, " bytes"));
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failure(errno, path);
  const auto closer = absl::MakeCleanup([fd] { close(fd); });
  struct stat about = {};
  std::string contents;
  if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
    if (about.st_size > max_bytes) return TooLong(path, max_bytes);
    // Growing by doubling would need twice the memory.
    contents.reserve(static_cast<size_t>(about.st_size));
  }
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failure(errno, path);
    if (count == 0) return contents;
    contents.append(buffer, static_cast<size_t>(count));
    if (static_cast<int64_t>(contents.size()) > max_bytes) {
      return TooLong(path, max_bytes);
    }
  }
}

}  // namespace stagecoach
