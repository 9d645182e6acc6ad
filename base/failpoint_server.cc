#include "base/failpoint_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/failpoint.h"
#include "base/status.h"

namespace stagecoach {
namespace {

constexpr size_t kMaxLine = 1024;

// A socket's address, which may be at most 107 bytes long: the path goes by
// way of its folder's descriptor.
class SocketAddress {
 public:
  explicit SocketAddress(const std::string& path)
      : folder_(open(std::filesystem::path(path).parent_path().c_str(),
                     O_PATH | O_DIRECTORY | O_CLOEXEC)),
        status_(folder_ < 0 ? absl::ErrnoToStatus(
                                  errno, absl::StrCat("the folder of ", path))
                            : absl::OkStatus()) {
    const std::string name =
        absl::StrCat("/proc/self/fd/", folder_, "/",
                     std::filesystem::path(path).filename().string());
    address_.sun_family = AF_UNIX;
    if (name.size() >= sizeof(address_.sun_path)) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("the socket's name in ", path, " is too long"));
      return;
    }
    std::memcpy(address_.sun_path, name.data(), name.size());
  }
  SocketAddress(const SocketAddress&) = delete;
  SocketAddress& operator=(const SocketAddress&) = delete;
  ~SocketAddress() {
    if (folder_ >= 0) close(folder_);
  }

  const absl::Status& status() const { return status_; }
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address_);
  }

 private:
  const int folder_;
  absl::Status status_;
  sockaddr_un address_ = {};
};

void WriteAll(int socket, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t count = send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

// Up to the end of the line, or of the connection.
std::string ReadLine(int socket) {
  std::string line;
  char byte = 0;
  while (line.size() < kMaxLine) {
    const ssize_t count = read(socket, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || byte == '\n') break;
    line.push_back(byte);
  }
  return line;
}

std::string AnswerTo(const std::string& line) {
  if (line == "list") {
    std::string answer;
    for (const FailpointState& point : ListFailpoints()) {
      absl::StrAppend(&answer, point.name, " ", point.reached, " ",
                      point.action, "\n");
    }
    return absl::StrCat(answer, "ok\n");
  }
  const std::vector<std::string> words =
      absl::StrSplit(line, absl::MaxSplits(' ', 2));
  if (words.size() != 3 || words[0] != "set") {
    return "error say: list, or: set NAME ACTION\n";
  }
  const absl::Status status = SetFailpoint(words[1], words[2]);
  return status.ok() ? "ok\n" : absl::StrCat("error ", status.message(), "\n");
}

void Serve(int listener) {
  while (true) {
    const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (socket < 0) break;
    WriteAll(socket, AnswerTo(ReadLine(socket)));
    close(socket);
  }
  close(listener);
}

}  // namespace

absl::Status ServeFailpoints() {
  const char* path = std::getenv("STAGECOACH_FAILPOINT_SOCKET");
  if (!FailpointsAreBuilt() || path == nullptr) return absl::OkStatus();
  return ServeFailpointsAt(path);
}

absl::Status ServeFailpointsAt(const std::string& path) {
  const SocketAddress address(path);
  SC_RETURN_IF_ERROR(address.status());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return absl::ErrnoToStatus(errno, "no socket");
  // Of an earlier process.
  unlink(path.c_str());
  if (bind(listener, address.get(), sizeof(sockaddr_un)) != 0 ||
      chmod(path.c_str(), 0600) != 0 || listen(listener, 8) != 0) {
    const int error = errno;
    close(listener);
    return absl::ErrnoToStatus(error, absl::StrCat("cannot listen at ", path));
  }
  std::thread(Serve, listener).detach();
  return absl::OkStatus();
}

absl::StatusOr<std::string> AskFailpoints(const std::string& path,
                                          const std::string& line) {
  const SocketAddress address(path);
  SC_RETURN_IF_ERROR(address.status());
  const int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (peer < 0) return absl::ErrnoToStatus(errno, "no socket");
  const auto closer = absl::MakeCleanup([peer] { close(peer); });
  if (connect(peer, address.get(), sizeof(sockaddr_un)) != 0) {
    return absl::UnavailableError(
        absl::StrCat("nobody listens at ", path, ": ", std::strerror(errno)));
  }
  WriteAll(peer, absl::StrCat(line, "\n"));
  std::string answer;
  char piece[4096];
  while (true) {
    const ssize_t count = read(peer, piece, sizeof(piece));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    answer.append(piece, static_cast<size_t>(count));
  }
  if (absl::EndsWith(answer, "ok\n")) {
    return std::string(absl::StripSuffix(answer, "ok\n"));
  }
  if (answer.empty()) return absl::UnavailableError("no answer");
  return absl::InvalidArgumentError(absl::StripSuffix(answer, "\n"));
}

}  // namespace stagecoach
