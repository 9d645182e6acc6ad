#ifndef STAGECOACH_STAGE_WORKER_CHECKPOINT_DURABLE_FILE_H_
#define STAGECOACH_STAGE_WORKER_CHECKPOINT_DURABLE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"

namespace stagecoach::checkpoint {

struct FileDigest {
  int64_t bytes = 0;
  std::string sha256;
};

// Writes a file from begin to end and hashes it on the way. A file that was
// there is replaced. Single-threaded; blocks. Errors are the system's
// (kResourceExhausted: no space left) and name the path.
class DurableFile {
 public:
  static absl::StatusOr<std::unique_ptr<DurableFile>> Create(
      const std::string& path);
  // Closes a file that was not finished; what was written of it stays.
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  absl::Status Write(const void* data, size_t bytes);
  absl::Status Write(absl::string_view text) {
    return Write(text.data(), text.size());
  }
  // Once, last: its bytes are on the disk when this returns. Its name is only
  // after SyncFolder.
  absl::StatusOr<FileDigest> Finish();

 private:
  DurableFile(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}

  const std::string path_;
  int descriptor_;
  int64_t bytes_ = 0;
  Sha256 sha256_;
};

// Makes the names in a folder durable. Blocks.
absl::Status SyncFolder(const std::string& folder);

// Size and SHA-256 of a file as it is now. Blocks.
absl::StatusOr<FileDigest> DigestFile(const std::string& path);

}  // namespace stagecoach::checkpoint

#endif  // STAGECOACH_STAGE_WORKER_CHECKPOINT_DURABLE_FILE_H_
