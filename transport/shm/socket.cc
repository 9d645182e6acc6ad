#include "transport/shm/socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::transport::shm {
namespace {

constexpr int kBacklog = 128;

absl::Status SystemError(absl::StatusCode code, const char* call) {
  return absl::Status(code, absl::StrCat("shm: ", call, ": ", strerror(errno)));
}

struct Address {
  sockaddr_un un{};
  socklen_t bytes = 0;
};

absl::StatusOr<Address> AbstractAddress(absl::string_view name) {
  Address address;
  if (name.empty() || name.size() >= sizeof(address.un.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shm: a socket name of ", name.size(), " bytes"));
  }
  address.un.sun_family = AF_UNIX;
  // A zero byte in front is what makes it abstract.
  std::copy(name.begin(), name.end(), address.un.sun_path + 1);
  address.bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

void SetSendTimeout(int fd, absl::Duration timeout) {
  // Zero would mean for ever.
  const timeval limit =
      absl::ToTimeval(std::max(timeout, absl::Milliseconds(1)));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

void AttachFds(const std::vector<int>& fds, char* control, msghdr* message) {
  const size_t bytes = fds.size() * sizeof(int);
  message->msg_control = control;
  message->msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* header = CMSG_FIRSTHDR(message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(header), fds.data(), bytes);
}

// Takes over every descriptor that came, also surplus ones, so that a peer
// cannot fill this process's table.
std::vector<UniqueFd> TakeFds(msghdr* message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Socket>> Socket::Listen(absl::string_view name) {
  SC_ASSIGN_OR_RETURN(const Address address, AbstractAddress(name));
  UniqueFd fd(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return SystemError(absl::StatusCode::kInternal, "socket");
  const auto* where = reinterpret_cast<const sockaddr*>(&address.un);
  if (bind(fd.get(), where, address.bytes) != 0) {
    return SystemError(absl::StatusCode::kInternal, "bind");
  }
  if (listen(fd.get(), kBacklog) != 0) {
    return SystemError(absl::StatusCode::kInternal, "listen");
  }
  return std::make_shared<Socket>(std::move(fd));
}

absl::StatusOr<std::shared_ptr<Socket>> Socket::Connect(
    absl::string_view name, absl::Duration timeout) {
  SC_ASSIGN_OR_RETURN(const Address address, AbstractAddress(name));
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SystemError(absl::StatusCode::kInternal, "socket");
  // Bounds a connect that waits in a full backlog.
  SetSendTimeout(fd.get(), timeout);
  const auto* where = reinterpret_cast<const sockaddr*>(&address.un);
  if (connect(fd.get(), where, address.bytes) != 0) {
    return SystemError(absl::StatusCode::kUnavailable,
                       "the peer's process is gone or busy: connect");
  }
  return std::make_shared<Socket>(std::move(fd));
}

absl::StatusOr<std::shared_ptr<Socket>> Socket::Accept() {
  UniqueFd fd(
      accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.valid()) return std::make_shared<Socket>(std::move(fd));
  if (errno == EMFILE || errno == ENFILE) {
    return SystemError(absl::StatusCode::kResourceExhausted, "accept");
  }
  return std::shared_ptr<Socket>();
}

absl::StatusOr<uid_t> Socket::PeerUser() const {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
    return SystemError(absl::StatusCode::kPermissionDenied, "SO_PEERCRED");
  }
  return peer.uid;
}

absl::Status Socket::Send(absl::string_view bytes,
                          const std::vector<int>& fds) {
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) AttachFds(fds, control, &message);
  if (sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    return SystemError(absl::StatusCode::kUnavailable, "sendmsg");
  }
  return absl::OkStatus();
}

absl::StatusOr<Packet> Socket::Receive() {
  Packet packet;
  packet.bytes.resize(kMaxPacketBytes);
  iovec data{&packet.bytes[0], packet.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got =
      recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) {
    const bool later = errno == EAGAIN || errno == EINTR;
    return SystemError(
        later ? absl::StatusCode::kUnavailable : absl::StatusCode::kAborted,
        "recvmsg");
  }
  packet.fds = TakeFds(&message);
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return absl::DataLossError("shm: the peer sent an oversized packet");
  }
  packet.bytes.resize(static_cast<size_t>(got));
  packet.end = got == 0;
  return packet;
}

absl::StatusOr<Packet> Socket::Receive(absl::Duration timeout) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + absl::ToChronoMilliseconds(timeout);
  while (true) {
    absl::StatusOr<Packet> packet = Receive();
    if (packet.ok() || !absl::IsUnavailable(packet.status())) return packet;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      return absl::UnavailableError(
          absl::StrCat("shm: the peer did not answer within ",
                       absl::FormatDuration(timeout)));
    }
    pollfd readable{fd_.get(), POLLIN, 0};
    poll(&readable, 1,
         static_cast<int>(std::min(left.count(), int64_t{1000} * 3600)));
  }
}

}  // namespace stagecoach::transport::shm
