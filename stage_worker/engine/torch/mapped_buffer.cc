#include "stage_worker/engine/torch/mapped_buffer.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"

namespace stagecoach::worker {
namespace {

[[noreturn]] void Refuse(const std::string& directory, int64_t bytes,
                         const char* call, int error) {
  throw std::runtime_error(absl::StrCat(
      "memory.optimizer = \"mapped\" needs ", FormatByteSize(bytes),
      " in a file in ", directory, ": ", call, ": ", std::strerror(error),
      "; try stagecoach-worker --mapping-directory with another one"));
}

// -1 and errno where it cannot be.
int OpenNameless(const std::string& directory) {
  const int fd =
      open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  // Not every file system can: one with a name, for a moment.
  std::string path = directory + "/stagecoach-optimizer-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

}  // namespace

at::Tensor MappedZeros(const std::string& directory, int64_t elements) {
  const int64_t bytes =
      std::max<int64_t>(elements, 1) * static_cast<int64_t>(sizeof(float));
  const int fd = OpenNameless(directory);
  if (fd < 0) Refuse(directory, bytes, "open", errno);
  const int full = posix_fallocate(fd, 0, bytes);
  if (full != 0) {
    close(fd);
    Refuse(directory, bytes, "fallocate", full);
  }
  void* const data = mmap(nullptr, static_cast<size_t>(bytes),
                          PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = errno;
  close(fd);  // the mapping holds the file
  if (data == MAP_FAILED) Refuse(directory, bytes, "mmap", error);
  return at::from_blob(
      data, {elements},
      [bytes](void* mapped) { munmap(mapped, static_cast<size_t>(bytes)); },
      at::TensorOptions().dtype(at::kFloat));
}

}  // namespace stagecoach::worker
