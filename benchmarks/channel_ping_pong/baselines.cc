#include "benchmarks/channel_ping_pong/baselines.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace stagecoach::benchmarks {
namespace {

void Fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void WriteAll(int fd, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t put = write(fd, data, bytes);
    if (put <= 0) Fail("write");
    data += put;
    bytes -= static_cast<size_t>(put);
  }
}

void ReadAll(int fd, char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = read(fd, data, bytes);
    if (got <= 0) Fail("read");
    data += got;
    bytes -= static_cast<size_t>(got);
  }
}

void NoDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

double NowMicroseconds() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void PinTo(int core) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  // Where that core is not ours, the measurement is without.
  (void)sched_setaffinity(0, sizeof(one), &one);
}

double MemcpyMicroseconds(size_t bytes, int rounds) {
  std::vector<char> written(bytes);
  std::vector<char> copied(bytes);
  std::atomic<int> turn{0};
  std::thread writer([&] {
    PinTo(1);
    for (int round = 0; round < rounds; ++round) {
      while (turn.load(std::memory_order_acquire) != 2 * round) {
      }
      std::memset(written.data(), round, bytes);
      turn.store(2 * round + 1, std::memory_order_release);
    }
  });
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    while (turn.load(std::memory_order_acquire) != 2 * round + 1) {
    }
    const double start = NowMicroseconds();
    std::memcpy(copied.data(), written.data(), bytes);
    times.push_back(NowMicroseconds() - start);
    turn.store(2 * round + 2, std::memory_order_release);
  }
  writer.join();
  return Median(times);
}

SocketPingPong::SocketPingPong()
    : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t bytes = sizeof(address);
  auto* where = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, where, bytes) != 0 || listen(listener_, 1) != 0 ||
      getsockname(listener_, where, &bytes) != 0) {
    Fail("listen");
  }
  port_ = ntohs(address.sin_port);
}

SocketPingPong::SocketPingPong(SocketPingPong&& other) noexcept
    : listener_(std::exchange(other.listener_, -1)),
      fd_(std::exchange(other.fd_, -1)),
      port_(other.port_) {}

SocketPingPong::~SocketPingPong() {
  if (fd_ >= 0) close(fd_);
  if (listener_ >= 0) close(listener_);
}

void SocketPingPong::Accept() {
  fd_ = accept(listener_, nullptr, nullptr);
  if (fd_ < 0) Fail("accept");
  NoDelay(fd_);
}

SocketPingPong SocketPingPong::Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    Fail("connect");
  }
  NoDelay(fd);
  return SocketPingPong(fd);
}

double SocketPingPong::Measure(size_t bytes, int rounds) {
  std::vector<char> out(bytes, 1);
  std::vector<char> in(bytes);
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const double start = NowMicroseconds();
    WriteAll(fd_, out.data(), bytes);
    ReadAll(fd_, in.data(), bytes);
    times.push_back((NowMicroseconds() - start) / 2);
  }
  return Median(times);
}

void SocketPingPong::Answer(size_t bytes, int rounds) {
  std::vector<char> out(bytes, 1);
  std::vector<char> in(bytes);
  for (int round = 0; round < rounds; ++round) {
    ReadAll(fd_, in.data(), bytes);
    WriteAll(fd_, out.data(), bytes);
  }
}

}  // namespace stagecoach::benchmarks
