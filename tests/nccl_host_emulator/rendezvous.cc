#include "tests/nccl_host_emulator/rendezvous.h"

#include <nccl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>

namespace nccl_host_emulator {
namespace {

constexpr int kRanks = 2;
constexpr int kPatienceMilliseconds = 60000;

struct Hello {
  int ranks;
  int rank;
  char gpu[32];
};
struct Answer {
  int result;
  char error[200];
};

socklen_t AddressOf(const std::string& name, sockaddr_un* address) {
  std::memset(address, 0, sizeof(*address));
  address->sun_family = AF_UNIX;
  // The first byte stays zero: no file.
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                name.size());
}

// `fd` -1: none goes along.
void SendAnswer(int socket, const Answer& answer, int fd) {
  iovec data{const_cast<Answer*>(&answer), sizeof(answer)};
  char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  // A rank that has gone meanwhile does not need it.
  (void)sendmsg(socket, &message, MSG_NOSIGNAL);
}

bool ReceiveAnswer(int socket, Answer* answer, int* fd) {
  iovec data{answer, sizeof(*answer)};
  char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got != static_cast<ssize_t>(sizeof(*answer))) return false;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    std::memcpy(fd, CMSG_DATA(header), sizeof(*fd));
  }
  return true;
}

Answer Compare(const Hello (&hellos)[kRanks]) {
  Answer answer{};
  if (hellos[0].rank == hellos[1].rank || hellos[0].ranks != hellos[1].ranks) {
    answer.result = ncclInvalidUsage;
    std::snprintf(answer.error, sizeof(answer.error),
                  "ranks %d of %d and %d of %d", hellos[0].rank,
                  hellos[0].ranks, hellos[1].rank, hellos[1].ranks);
  } else if (std::strcmp(hellos[0].gpu, hellos[1].gpu) == 0) {
    answer.result = ncclInvalidUsage;
    std::snprintf(answer.error, sizeof(answer.error),
                  "Duplicate GPU detected : rank %d and rank %d both on CUDA "
                  "device %s",
                  hellos[0].rank, hellos[1].rank, hellos[0].gpu);
  }
  return answer;
}

void AnswerBoth(const int (&sockets)[kRanks], const Hello (&hellos)[kRanks]) {
  const Answer answer = Compare(hellos);
  int pair[kRanks] = {-1, -1};
  if (answer.result == 0) {
    (void)socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
  }
  for (int i = 0; i < kRanks; ++i) {
    SendAnswer(sockets[i], answer, pair[i]);
    if (pair[i] >= 0) close(pair[i]);
  }
}

void Serve(int listener) {
  int sockets[kRanks] = {-1, -1};
  Hello hellos[kRanks] = {};
  int come = 0;
  while (come < kRanks) {
    pollfd waiting{listener, POLLIN, 0};
    if (poll(&waiting, 1, kPatienceMilliseconds) <= 0) break;
    const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) break;
    if (recv(socket, &hellos[come], sizeof(Hello), 0) !=
        static_cast<ssize_t>(sizeof(Hello))) {
      close(socket);
      continue;
    }
    sockets[come++] = socket;
  }
  if (come == kRanks) AnswerBoth(sockets, hellos);
  for (const int socket : sockets) {
    if (socket >= 0) close(socket);
  }
  close(listener);
}

}  // namespace

std::string ListenForRanks() {
  std::random_device device;
  char name[64];
  std::snprintf(name, sizeof(name), "nccl-host-emulator-%08x%08x%08x", device(),
                device(), device());
  sockaddr_un address;
  const socklen_t size = AddressOf(name, &address);
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, kRanks) != 0) {
    return "";
  }
  std::thread([listener] { Serve(listener); }).detach();
  return name;
}

void Cancellation::Cancel() {
  std::lock_guard<std::mutex> lock(mu_);
  cancelled_ = true;
  if (socket_ >= 0) shutdown(socket_, SHUT_RDWR);
}

bool Cancellation::Enter(int socket) {
  std::lock_guard<std::mutex> lock(mu_);
  socket_ = socket;
  return !cancelled_;
}

void Cancellation::Leave() {
  std::lock_guard<std::mutex> lock(mu_);
  socket_ = -1;
}

Joined JoinRanks(const std::string& name, int ranks, int rank,
                 const std::string& gpu, Cancellation* cancellation) {
  Joined joined;
  joined.result = ncclSystemError;
  sockaddr_un address;
  const socklen_t size = AddressOf(name, &address);
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connect(socket, reinterpret_cast<sockaddr*>(&address), size) != 0) {
    joined.error = std::string("connecting to the root: ") + strerror(errno);
  } else if (!cancellation->Enter(socket)) {
    joined.error = "cancelled";
  } else {
    Hello hello{};
    hello.ranks = ranks;
    hello.rank = rank;
    std::snprintf(hello.gpu, sizeof(hello.gpu), "%s", gpu.c_str());
    Answer answer{};
    if (send(socket, &hello, sizeof(hello), MSG_NOSIGNAL) < 0 ||
        !ReceiveAnswer(socket, &answer, &joined.fd)) {
      joined.error = "the root or the other rank has gone";
    } else {
      joined.result = answer.result;
      joined.error = answer.error;
    }
  }
  cancellation->Leave();
  close(socket);
  return joined;
}

}  // namespace nccl_host_emulator
