#include "stage_worker/checkpoint/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/failpoint.h"

namespace stagecoach::checkpoint {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

absl::Status Failed(int error, absl::string_view verb,
                    const std::string& path) {
  const std::string message = absl::StrCat("cannot ", verb, " ", path);
  // Both are "free some space"; the library has no code for a quota.
  if (error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(absl::StrCat(
        message, ": ", error == EFBIG ? "File too large" : "Quota exceeded"));
  }
  return absl::ErrnoToStatus(error, message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DurableFile>> DurableFile::Create(
    const std::string& path) {
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
           0666);
  if (descriptor < 0) return Failed(errno, "create", path);
  return std::unique_ptr<DurableFile>(new DurableFile(path, descriptor));
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status DurableFile::Write(const void* data, size_t bytes) {
  SC_FAIL_AT("worker.checkpoint.write");
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    // In pieces, so that what is hashed is still in the cache.
    const size_t piece = std::min(bytes, kPieceBytes);
    const ssize_t count = write(descriptor_, next, piece);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failed(errno, "write", path_);
    sha256_.Update(next, static_cast<size_t>(count));
    next += count;
    bytes -= static_cast<size_t>(count);
    bytes_ += count;
  }
  return absl::OkStatus();
}

absl::StatusOr<FileDigest> DurableFile::Finish() {
  SC_FAIL_AT("worker.checkpoint.sync");
  if (fsync(descriptor_) != 0) return Failed(errno, "sync", path_);
  // A network file system may report a failed write only here.
  if (close(std::exchange(descriptor_, -1)) != 0) {
    return Failed(errno, "close", path_);
  }
  FileDigest digest;
  digest.bytes = bytes_;
  digest.sha256 = sha256_.FinishHex();
  return digest;
}

absl::Status SyncFolder(const std::string& folder) {
  const int descriptor =
      open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return Failed(errno, "open", folder);
  const auto closer = absl::MakeCleanup([descriptor] { close(descriptor); });
  if (fsync(descriptor) != 0) return Failed(errno, "sync", folder);
  return absl::OkStatus();
}

absl::StatusOr<FileDigest> DigestFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return Failed(errno, "read", path);
  const auto closer = absl::MakeCleanup([descriptor] { close(descriptor); });
  std::vector<char> piece(kPieceBytes);
  Sha256 sha256;
  FileDigest digest;
  while (true) {
    const ssize_t count = read(descriptor, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failed(errno, "read", path);
    if (count == 0) break;
    sha256.Update(piece.data(), static_cast<size_t>(count));
    digest.bytes += count;
  }
  digest.sha256 = sha256.FinishHex();
  return digest;
}

}  // namespace stagecoach::checkpoint
