#include "client/child_log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::client {
namespace {

constexpr off_t kTailBytes = 16 << 10;

std::string TemporaryFolder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

int OpenNameless() {
  const int fd = open(TemporaryFolder().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC,
                      S_IRUSR | S_IWUSR);
  if (fd >= 0) return fd;
  // Not every file system has files without names.
  return memfd_create("stagecoach-log", MFD_CLOEXEC);
}

}  // namespace

absl::StatusOr<ChildLog> ChildLog::Temporary() {
  const int fd = OpenNameless();
  if (fd < 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot make a temporary file in ",
                                            TemporaryFolder(), "; set TMPDIR"));
  }
  // A child that is being started still has the descriptor, under this number.
  return ChildLog(fd, absl::StrCat("/proc/self/fd/", fd));
}

absl::StatusOr<ChildLog> ChildLog::Kept(const std::string& folder,
                                        absl::string_view name) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot make the folder ", folder, " for logs: ", error.message()));
  }
  std::string path = absl::StrCat(folder, "/", name, ".log");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC,
                      S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  if (fd < 0) {
    const absl::Status status = absl::ErrnoToStatus(errno, path);
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write a log: ", status.message()));
  }
  return ChildLog(fd, std::move(path));
}

ChildLog::~ChildLog() {
  if (fd_ >= 0) close(fd_);
}

std::string ChildLog::Tail(int lines) const {
  const off_t size = lseek(fd_, 0, SEEK_END);
  const off_t start = std::max<off_t>(0, size - kTailBytes);
  std::string text(static_cast<size_t>(std::max<off_t>(0, size - start)), '\0');
  const ssize_t count = pread(fd_, text.data(), text.size(), start);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, count)));
  if (!text.empty() && text.back() != '\n') text += '\n';
  // The start of the last `lines` lines.
  size_t begin = text.size();
  for (int i = 0; i < lines && begin > 0; ++i) {
    const size_t newline =
        begin < 2 ? std::string::npos : text.rfind('\n', begin - 2);
    begin = newline == std::string::npos ? 0 : newline + 1;
  }
  return text.substr(begin);
}

}  // namespace stagecoach::client
