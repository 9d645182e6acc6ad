#include "transport/tcp/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::transport::tcp {
namespace {

constexpr int kBacklog = 128;
// A path is broken if bytes stay unconfirmed, or an idle peer's machine does
// not answer, for about this long.
constexpr int kUnconfirmedMilliseconds = 10'000;
constexpr int kIdleSeconds = 5;
constexpr int kProbeSeconds = 2;
constexpr int kProbes = 3;

absl::Status SystemError(absl::StatusCode code, absl::string_view what) {
  return absl::Status(code, absl::StrCat("tcp: ", what, ": ", strerror(errno)));
}

void SetOption(int fd, int level, int option, int value) {
  // What cannot be set costs speed or time to notice, not correctness.
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(UniqueFd fd) : fd_(std::move(fd)) {}

  absl::StatusOr<size_t> Read(const iovec* parts, int count) override {
    const ssize_t got = readv(fd_.get(), parts, count);
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0) return absl::UnavailableError("tcp: the peer closed");
    return Later("readv");
  }

  absl::StatusOr<size_t> Write(const iovec* parts, int count) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts);
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t put =
        sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put >= 0) return static_cast<size_t>(put);
    return Later("sendmsg");
  }

  void EndWriting() override { (void)shutdown(fd_.get(), SHUT_WR); }
  int fd() const override { return fd_.get(); }

 private:
  static absl::StatusOr<size_t> Later(const char* call) {
    if (errno == EAGAIN || errno == EINTR) return size_t{0};
    return SystemError(absl::StatusCode::kUnavailable, call);
  }

  const UniqueFd fd_;
};

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t bytes)
    : bytes_(bytes) {
  std::memcpy(&storage_, address, bytes);
}

absl::StatusOr<SocketAddress> SocketAddress::Of(const std::string& host,
                                                int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result =
      getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (result != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tcp: \"", host, "\" is no host: ", gai_strerror(result)));
  }
  SocketAddress address(found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

absl::StatusOr<SocketAddress> SocketAddress::Parse(absl::string_view text) {
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos ||
      !absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("tcp: \"", text, "\" is no address and port"));
  }
  std::string host(text.substr(0, colon));
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<uint16_t>(port));
    return SocketAddress(reinterpret_cast<sockaddr*>(&v4), sizeof(v4));
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']' &&
      inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(),
                &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<uint16_t>(port));
    return SocketAddress(reinterpret_cast<sockaddr*>(&v6), sizeof(v6));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tcp: \"", text, "\" is no numeric address"));
}

absl::StatusOr<SocketAddress> SocketAddress::OfSocket(int fd) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) {
    return SystemError(absl::StatusCode::kInternal, "getsockname");
  }
  return SocketAddress(reinterpret_cast<sockaddr*>(&storage), bytes);
}

std::string SocketAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = {};
  if (family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage_);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    return absl::StrCat("[", text, "]:", port());
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage_);
  inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
  return absl::StrCat(text, ":", port());
}

int SocketAddress::port() const {
  if (family() == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

SocketAddress SocketAddress::WithPort(int port) const {
  SocketAddress copy = *this;
  const uint16_t wire = htons(static_cast<uint16_t>(port));
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&copy.storage_)->sin6_port = wire;
  } else {
    reinterpret_cast<sockaddr_in*>(&copy.storage_)->sin_port = wire;
  }
  return copy;
}

bool SocketAddress::IsLoopback() const {
  if (family() == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(
        &reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage_);
  return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
}

bool SocketAddress::IsWildcard() const {
  if (family() == AF_INET6) {
    return IN6_IS_ADDR_UNSPECIFIED(
        &reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
  }
  return reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr ==
         INADDR_ANY;
}

std::vector<SocketAddress> InterfaceAddresses(int family) {
  std::vector<SocketAddress> addresses;
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return addresses;
  for (const ifaddrs* it = interfaces; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || (it->ifa_flags & IFF_UP) == 0) continue;
    const int here = it->ifa_addr->sa_family;
    // A wildcard IPv6 socket takes IPv4 connections too.
    const bool v4 = here == AF_INET;
    const bool v6 = here == AF_INET6 && family == AF_INET6;
    if (!v4 && !v6) continue;
    SocketAddress address(it->ifa_addr,
                          v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (address.IsLoopback()) continue;
    if (v6 && IN6_IS_ADDR_LINKLOCAL(
                  &reinterpret_cast<sockaddr_in6*>(it->ifa_addr)->sin6_addr)) {
      continue;
    }
    addresses.push_back(address.WithPort(0));
  }
  freeifaddrs(interfaces);
  return addresses;
}

absl::StatusOr<UniqueFd> Listen(const SocketAddress& address) {
  UniqueFd fd(
      socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return SystemError(absl::StatusCode::kUnavailable, "socket");
  SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(fd.get(), address.get(), address.bytes()) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    const absl::StatusCode code = errno == EADDRINUSE
                                      ? absl::StatusCode::kAlreadyExists
                                      : absl::StatusCode::kInvalidArgument;
    return SystemError(code,
                       absl::StrCat("cannot listen on ", address.ToString()));
  }
  return fd;
}

absl::StatusOr<UniqueFd> Accept(int listener) {
  UniqueFd fd(
      accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid() && (errno == EMFILE || errno == ENFILE)) {
    return SystemError(absl::StatusCode::kResourceExhausted, "accept");
  }
  return fd;
}

absl::StatusOr<UniqueFd> StartConnect(const SocketAddress& address) {
  UniqueFd fd(
      socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return SystemError(absl::StatusCode::kUnavailable, "socket");
  if (connect(fd.get(), address.get(), address.bytes()) != 0 &&
      errno != EINPROGRESS) {
    return SystemError(errno == ECONNREFUSED ? absl::StatusCode::kNotFound
                                             : absl::StatusCode::kUnavailable,
                       absl::StrCat("cannot connect to ", address.ToString()));
  }
  return fd;
}

absl::Status FinishConnect(int fd) {
  int error = 0;
  socklen_t bytes = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  errno = error;
  return SystemError(error == ECONNREFUSED ? absl::StatusCode::kNotFound
                                           : absl::StatusCode::kUnavailable,
                     "connect");
}

absl::StatusOr<std::unique_ptr<ByteStream>> NewPlainStream(UniqueFd socket,
                                                           bool /*dialled*/) {
  const int fd = socket.get();
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnconfirmedMilliseconds);
  return std::unique_ptr<ByteStream>(
      std::make_unique<PlainStream>(std::move(socket)));
}

}  // namespace stagecoach::transport::tcp
