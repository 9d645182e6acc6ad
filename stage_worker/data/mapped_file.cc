#include "stage_worker/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::worker {
namespace {

absl::Status Refused(const std::string& file, int error) {
  const std::string message = absl::StrCat(file, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message)
                         : absl::InvalidArgumentError(message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(
    const std::string& path, const char* what) {
  const std::string file = absl::StrCat(what, " ", path);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return Refused(file, errno);
  // The mapping lives on without the descriptor.
  absl::Cleanup close_descriptor = [descriptor] { close(descriptor); };
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) return Refused(file, errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": not a regular file"));
  }
  if (status.st_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": empty"));
  }
  void* const data = mmap(nullptr, static_cast<size_t>(status.st_size),
                          PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) return Refused(file, errno);
  return std::unique_ptr<MappedFile>(
      new MappedFile(static_cast<const uint8_t*>(data), status.st_size));
}

MappedFile::~MappedFile() {
  munmap(const_cast<uint8_t*>(data_), static_cast<size_t>(size_bytes_));
}

}  // namespace stagecoach::worker
