#include "transport/shm/watcher.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach::transport::shm {

struct Watcher::Turn {
  std::vector<pollfd> fds;       // the first is the eventfd
  std::vector<Watched> watched;  // of fds[i + 1]; keeps the descriptors open
  std::vector<Watched> expired;
  int timeout_ms = -1;
};

absl::StatusOr<std::unique_ptr<Watcher>> Watcher::Start() {
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return absl::InternalError(absl::StrCat("shm: eventfd: ", strerror(errno)));
  }
  std::unique_ptr<Watcher> watcher(new Watcher(std::move(wake)));
  watcher->thread_ = std::thread([self = watcher.get()] { self->Loop(); });
  pthread_setname_np(watcher->thread_.native_handle(), "shm-watcher");
  return watcher;
}

Watcher::~Watcher() { Stop(); }

void Watcher::Wake() {
  const uint64_t one = 1;
  // Can only fail if the count is at its limit: then it is awake.
  (void)!write(wake_.get(), &one, sizeof(one));
}

void Watcher::Watch(std::shared_ptr<Socket> socket, Handler handler,
                    Clock::time_point deadline, std::function<void()> on_late) {
  Watched watched;
  watched.handler = std::make_shared<Handler>(std::move(handler));
  watched.deadline = deadline;
  watched.on_late = std::move(on_late);
  watched.socket = std::move(socket);
  {
    MutexLock lock(&mu_);
    if (stopping_) return;
    // The old handler leaves with `watched`, after the lock.
    std::swap(watched_[watched.socket.get()], watched);
  }
  Wake();
}

void Watcher::Drop(const Socket* socket) {
  Watched dropped;
  {
    MutexLock lock(&mu_);
    const auto found = watched_.find(socket);
    if (found == watched_.end()) return;
    dropped = std::move(found->second);
    watched_.erase(found);
  }
  Wake();
}

void Watcher::Stop() {
  std::map<const Socket*, Watched> left;
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    left.swap(watched_);
  }
  Wake();
  if (thread_.joinable()) thread_.join();
}

bool Watcher::Prepare(Turn* turn) {
  const Clock::time_point now = Clock::now();
  Clock::time_point next = Clock::time_point::max();
  MutexLock lock(&mu_);
  if (stopping_) return false;
  turn->fds.push_back({wake_.get(), POLLIN, 0});
  for (auto it = watched_.begin(); it != watched_.end();) {
    if (it->second.deadline <= now) {
      turn->expired.push_back(std::move(it->second));
      it = watched_.erase(it);
      continue;
    }
    next = std::min(next, it->second.deadline);
    turn->fds.push_back({it->second.socket->fd(), POLLIN, 0});
    turn->watched.push_back(it->second);
    ++it;
  }
  if (next != Clock::time_point::max()) {
    turn->timeout_ms = static_cast<int>(
        std::chrono::ceil<std::chrono::milliseconds>(next - now).count());
  }
  return true;
}

void Watcher::Handle(const Socket* socket) {
  std::shared_ptr<Handler> handler;
  {
    MutexLock lock(&mu_);
    const auto found = watched_.find(socket);
    if (found == watched_.end()) return;
    handler = found->second.handler;
  }
  if (!(*handler)()) Drop(socket);
}

void Watcher::Loop() {
  while (true) {
    Turn turn;
    if (!Prepare(&turn)) return;
    for (const Watched& late : turn.expired) {
      if (late.on_late) late.on_late();
    }
    turn.expired.clear();
    poll(turn.fds.data(), turn.fds.size(), turn.timeout_ms);
    uint64_t wakes = 0;
    (void)!read(wake_.get(), &wakes, sizeof(wakes));
    for (size_t i = 0; i < turn.watched.size(); ++i) {
      if (turn.fds[i + 1].revents != 0) Handle(turn.watched[i].socket.get());
    }
  }
}

}  // namespace stagecoach::transport::shm
