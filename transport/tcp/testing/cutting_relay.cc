#include "transport/tcp/testing/cutting_relay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "transport/tcp/descriptor.h"
#include "transport/tcp/socket.h"

namespace stagecoach::transport::tcp {
namespace {

constexpr size_t kPieceBytes = 16 * 1024;

// Blocking, so that a slow side holds the other back.
UniqueFd Connect(const std::string& target) {
  const SocketAddress address = SocketAddress::Parse(target).value();
  UniqueFd fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), address.get(), address.bytes()) != 0) fd.Reset();
  return fd;
}

bool WriteAll(int fd, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t put = send(fd, data, bytes, MSG_NOSIGNAL);
    if (put <= 0) return false;
    data += put;
    bytes -= static_cast<size_t>(put);
  }
  return true;
}

}  // namespace

struct CuttingRelay::Pair {
  UniqueFd dialler;
  UniqueFd target;
  int64_t left;
};

CuttingRelay::CuttingRelay(absl::string_view descriptor,
                           std::function<int64_t()> cut_after)
    : cut_after_(std::move(cut_after)), wake_(eventfd(0, EFD_CLOEXEC)) {
  Descriptor parsed = ParseDescriptor(descriptor).value();
  target_ = parsed.addresses.front().ToString();
  listener_ = Listen(SocketAddress::Parse("127.0.0.1:0").value()).value();
  parsed.addresses = {SocketAddress::OfSocket(listener_.get()).value()};
  descriptor_ = Format(parsed);
  thread_ = std::thread([this] { Loop(); });
}

CuttingRelay::~CuttingRelay() { Close(); }

CuttingRelay::Wish CuttingRelay::wish() const {
  MutexLock lock(&mu_);
  return wish_;
}

void CuttingRelay::Ask(Wish wish) {
  {
    MutexLock lock(&mu_);
    wish_ = wish;
  }
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void CuttingRelay::Hold() {
  Ask(Wish::kHold);
  MutexLock lock(&mu_);
  while (!holding_) changed_.Wait(&mu_);
}

void CuttingRelay::Release() { Ask(Wish::kPass); }

void CuttingRelay::Close() {
  Ask(Wish::kStop);
  if (thread_.joinable()) thread_.join();
}

// False once the connection is to be cut.
bool CuttingRelay::Pass(int from, int to, int64_t* left) {
  char piece[kPieceBytes];
  const size_t limit =
      *left < 0 ? sizeof(piece)
                : std::min<size_t>(sizeof(piece), static_cast<size_t>(*left));
  const ssize_t got = recv(from, piece, limit, 0);
  if (got <= 0) return false;
  if (!WriteAll(to, piece, static_cast<size_t>(got))) return false;
  if (*left < 0) return true;
  *left -= got;
  if (*left > 0) return true;
  ++cuts_;
  return false;
}

void CuttingRelay::Loop() {
  std::vector<Pair> pairs;
  while (true) {
    const Wish now = wish();
    if (now == Wish::kStop) break;
    if (now == Wish::kHold) pairs.clear();
    {
      MutexLock lock(&mu_);
      holding_ = now == Wish::kHold;
      changed_.NotifyAll();
    }
    const short new_ones = now == Wish::kHold ? 0 : POLLIN;
    std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0},
                               {listener_.get(), new_ones, 0}};
    for (const Pair& pair : pairs) {
      fds.push_back({pair.dialler.get(), POLLIN, 0});
      fds.push_back({pair.target.get(), POLLIN, 0});
    }
    poll(fds.data(), fds.size(), -1);
    uint64_t wakes = 0;
    if (fds[0].revents != 0) (void)!read(wake_.get(), &wakes, sizeof(wakes));
    std::vector<Pair> kept;
    for (size_t i = 0; i < pairs.size(); ++i) {
      Pair& pair = pairs[i];
      const int dialler = pair.dialler.get();
      const int target = pair.target.get();
      bool stands = true;
      if (fds[2 + 2 * i].revents != 0) {
        stands = Pass(dialler, target, &pair.left);
      }
      if (stands && fds[3 + 2 * i].revents != 0) {
        stands = Pass(target, dialler, &pair.left);
      }
      if (stands) kept.push_back(std::move(pair));
    }
    pairs = std::move(kept);
    if (fds[1].revents == 0) continue;
    // Blocking, unlike Accept's.
    UniqueFd dialler(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    UniqueFd target = Connect(target_);
    if (dialler.valid() && target.valid()) {
      pairs.push_back(
          Pair{std::move(dialler), std::move(target), cut_after_()});
    }
  }
  listener_.Reset();
}

}  // namespace stagecoach::transport::tcp
