#ifndef STAGECOACH_STAGE_WORKER_DATA_MAPPED_FILE_H_
#define STAGECOACH_STAGE_WORKER_DATA_MAPPED_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace stagecoach::worker {

// A whole file mapped read-only. The file must not be cut short while it is
// mapped (the kernel answers a read past the new end with SIGBUS). Immutable,
// so thread-safe.
class MappedFile {
 public:
  // kNotFound if there is no such file; kInvalidArgument if it is empty, no
  // regular file, or cannot be read. Messages begin with `what` and the path.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(
      const std::string& path, const char* what = "data file");
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const uint8_t* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  MappedFile(const uint8_t* data, int64_t size_bytes)
      : data_(data), size_bytes_(size_bytes) {}

  const uint8_t* const data_;
  const int64_t size_bytes_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_DATA_MAPPED_FILE_H_
