#include "tests/faults/proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::testing {
namespace {

// How soon a pump sees that something has changed.
constexpr int kPollMilliseconds = 5;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool IsReadable(int socket) {
  pollfd entry = {socket, POLLIN, 0};
  return poll(&entry, 1, kPollMilliseconds) > 0;
}

bool SendAll(int socket, const char* data, ssize_t bytes) {
  while (bytes > 0) {
    const ssize_t count =
        send(socket, data, static_cast<size_t>(bytes), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    data += count;
    bytes -= count;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Proxy>> Proxy::Start(const std::string& server) {
  auto proxy = std::unique_ptr<Proxy>(new Proxy);
  const size_t colon = server.rfind(':');
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(server.substr(colon + 1), &proxy->server_port_)) {
    return absl::InvalidArgumentError(absl::StrCat(server, " has no port"));
  }
  proxy->listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(proxy->listener_, generic, size) != 0 ||
      listen(proxy->listener_, 64) != 0 ||
      getsockname(proxy->listener_, generic, &size) != 0) {
    return absl::ErrnoToStatus(errno, "no proxy");
  }
  proxy->address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  proxy->acceptor_ = std::thread([raw = proxy.get()] { raw->Accept(); });
  return proxy;
}

Proxy::~Proxy() {
  stopped_ = true;
  if (acceptor_.joinable()) acceptor_.join();
  if (listener_ >= 0) close(listener_);
  std::vector<std::unique_ptr<Connection>> connections;
  {
    MutexLock lock(&mu_);
    connections.swap(connections_);
  }
  for (const auto& connection : connections) {
    connection->over = true;
    for (std::thread& pump : connection->pumps) pump.join();
    close(connection->client);
    close(connection->server);
  }
}

int Proxy::Cut() {
  int cut = 0;
  MutexLock lock(&mu_);
  for (const auto& connection : connections_) {
    if (!connection->over.exchange(true)) ++cut;
  }
  return cut;
}

void Proxy::Accept() {
  while (!stopped_) {
    if (!IsReadable(listener_)) continue;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client >= 0) Open(client);
  }
}

void Proxy::Open(int client) {
  auto connection = std::make_unique<Connection>();
  connection->client = client;
  connection->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(server_port_);
  if (connect(connection->server, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    close(client);
    close(connection->server);
    return;
  }
  const int on = 1;
  for (const int socket : {connection->client, connection->server}) {
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  Connection* const raw = connection.get();
  for (const Way way : {Way::kToServer, Way::kToClient}) {
    raw->pumps.emplace_back([this, raw, way] { Pump(raw, way); });
  }
  MutexLock lock(&mu_);
  connections_.push_back(std::move(connection));
}

void Proxy::Pump(Connection* connection, Way way) {
  const bool to_server = way == Way::kToServer;
  const int from = to_server ? connection->client : connection->server;
  const int to = to_server ? connection->server : connection->client;
  char piece[65536];
  while (!connection->over) {
    if (hold_[Index(way)]) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMilliseconds));
      continue;
    }
    if (!IsReadable(from)) continue;
    const ssize_t count = recv(from, piece, sizeof(piece), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    if (const int delay = delay_ms_; delay > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    }
    // What a partition caught under way waits, too.
    while (hold_[Index(way)] && !connection->over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMilliseconds));
    }
    if (!SendAll(to, piece, count)) break;
  }
  connection->over = true;
  // The other pump, and both peers, see the end. The descriptors stay until the
  // proxy goes, so that nobody else gets their numbers.
  shutdown(connection->client, SHUT_RDWR);
  shutdown(connection->server, SHUT_RDWR);
}

}  // namespace stagecoach::testing
