#ifndef STAGECOACH_CLIENT_CHILD_LOG_H_
#define STAGECOACH_CLIENT_CHILD_LOG_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach::client {

// Where a child process's stderr goes. Thread-compatible.
class ChildLog {
 public:
  // A file without a name: it is gone with the processes that have it open,
  // also when the client is killed.
  static absl::StatusOr<ChildLog> Temporary();
  // The file `folder`/`name`.log, emptied; the folder is made if need be.
  static absl::StatusOr<ChildLog> Kept(const std::string& folder,
                                       absl::string_view name);
  ChildLog(ChildLog&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  ChildLog& operator=(ChildLog&&) = delete;
  ~ChildLog();

  // What to open for appending, in this process or in a child while it is
  // being started.
  const std::string& path() const { return path_; }
  // The last lines, at most `lines` of them and 16 KiB, each with its newline.
  std::string Tail(int lines) const;

 private:
  ChildLog(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_ = -1;
  std::string path_;
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_CHILD_LOG_H_
