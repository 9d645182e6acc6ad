#include "transport/tcp/reactor.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach::transport::tcp {
namespace {

constexpr int kMaxEvents = 64;
constexpr uint64_t kWakeId = 0;
// Who sleeps on a doorbell between polls does two in a row at most; who spins
// does hundreds, between two transfers.
constexpr int64_t kAtOnceNanoseconds = 5'000;
constexpr int kSpinningRun = 16;
constexpr int kLongestRun = 64;
constexpr int kPause = 8;
constexpr int64_t kGoneNanoseconds = 500'000;
// How long a sleeper that has left the bell may do something else before its
// events are looked after: as long as one who spins may pause.
constexpr int kNapMilliseconds = 1;
// After so many of them in which nothing has happened it does not look again
// before the sleeper leaves.
constexpr int kQuietLooks = 10;
// So many polls in a nap are of one who does nothing else.
constexpr uint64_t kBusyPolls = 8;

int64_t NowNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             Reactor::Clock::now().time_since_epoch())
      .count();
}

}  // namespace

bool Reactor::Turn::TryEnter() {
  MutexLock lock(&mu_);
  if (taken_ || next_ > 0) {
    SetGate(false);
    return false;
  }
  taken_ = true;
  return true;
}

void Reactor::Turn::Enter() {
  MutexLock lock(&mu_);
  while (taken_) left_.Wait(&mu_);
  taken_ = true;
}

void Reactor::Turn::EnterNext() {
  MutexLock lock(&mu_);
  ++next_;
  while (taken_) left_.Wait(&mu_);
  --next_;
  taken_ = true;
}

void Reactor::Turn::Leave() {
  MutexLock lock(&mu_);
  taken_ = false;
  SetGate(true);
  left_.NotifyAll();
}

void Reactor::Turn::SetGate(bool open) {
  if (is_open_ == open) return;
  is_open_ = open;
  epoll_event event{};
  if (open) event.events = EPOLLIN;
  (void)epoll_ctl(gate_, EPOLL_CTL_MOD, epoll_, &event);
}

Reactor::Reactor(Doorbell* bell, UniqueFd epoll, UniqueFd gate, UniqueFd wake)
    : bell_(bell),
      epoll_(std::move(epoll)),
      gate_(std::move(gate)),
      wake_(std::move(wake)),
      turn_(gate_.get(), epoll_.get()) {}

absl::StatusOr<std::unique_ptr<Reactor>> Reactor::Start(Doorbell* bell) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  UniqueFd gate(epoll_create1(EPOLL_CLOEXEC));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeId;
  if (!epoll.valid() || !gate.valid() || !wake.valid() ||
      epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0 ||
      epoll_ctl(gate.get(), EPOLL_CTL_ADD, epoll.get(), &event) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tcp: epoll or eventfd: ", strerror(errno)));
  }
  std::unique_ptr<Reactor> reactor(
      new Reactor(bell, std::move(epoll), std::move(gate), std::move(wake)));
  bell->AddSource(reactor->gate_.get(), [self = reactor.get()] {
    if (self->far_aside_.exchange(false, std::memory_order_seq_cst)) {
      self->Wake();
    }
  });
  reactor->thread_ = std::thread([self = reactor.get()] { self->Loop(); });
  pthread_setname_np(reactor->thread_.native_handle(), "tcp-reactor");
  return reactor;
}

Reactor::~Reactor() { Stop(); }

void Reactor::Wake() {
  const uint64_t one = 1;
  // Can only fail if the count is at its limit: then it is awake.
  (void)!write(wake_.get(), &one, sizeof(one));
}

// By the own thread only: a wake-up is for it, to look at its time limit again,
// and a poller that took it would let that thread sleep on.
void Reactor::DrainWake() {
  uint64_t wakes = 0;
  (void)!read(wake_.get(), &wakes, sizeof(wakes));
}

uint64_t Reactor::Watch(int fd, std::shared_ptr<Handler> handler) {
  MutexLock lock(&mu_);
  const uint64_t id = next_id_++;
  watched_[id] = Watched{fd, std::move(handler)};
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = id;
  // Fails only for a descriptor that is none, or without memory: the handler is
  // then never called, and its deadline ends it.
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  return id;
}

void Reactor::Forget(uint64_t id) {
  std::shared_ptr<Handler> dropped;  // outside the lock
  MutexLock lock(&mu_);
  const auto found = watched_.find(id);
  if (found == watched_.end()) return;
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
  dropped = std::move(found->second.handler);
  watched_.erase(found);
}

void Reactor::Post(Task task) {
  {
    MutexLock lock(&mu_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
  }
  Wake();
}

void Reactor::PostAt(Clock::time_point when, Task task) {
  {
    MutexLock lock(&mu_);
    if (stopping_) return;
    timers_.emplace(when, std::move(task));
  }
  Wake();
}

void Reactor::Run(const Task& task) {
  turn_.EnterNext();
  task();
  turn_.Leave();
}

bool Reactor::stopping() const {
  MutexLock lock(&mu_);
  return stopping_;
}

int Reactor::TimeoutMilliseconds() const {
  MutexLock lock(&mu_);
  if (!tasks_.empty()) return 0;
  if (timers_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      timers_.begin()->first - Clock::now());
  return left.count() < 0 ? 0 : static_cast<int>(left.count());
}

bool Reactor::SomebodySpins() const {
  return poll_run_.load(std::memory_order_relaxed) >= kSpinningRun &&
         NowNanoseconds() - last_poll_.load(std::memory_order_relaxed) <
             kGoneNanoseconds;
}

// Several threads may poll at once: then these are estimates, as always.
void Reactor::CountPoll(int64_t start) {
  const int run = poll_run_.load(std::memory_order_relaxed);
  const bool at_once =
      start - last_poll_.load(std::memory_order_relaxed) < kAtOnceNanoseconds;
  poll_run_.store(
      at_once ? std::min(run + 1, kLongestRun) : std::max(run - kPause, 0),
      std::memory_order_relaxed);
  last_poll_.store(NowNanoseconds(), std::memory_order_relaxed);
}

bool Reactor::SomebodyElseLooks() const {
  return bell_->SourcesAreWatched() || SomebodySpins();
}

void Reactor::Loop() {
  while (!stopping()) {
    if (SomebodyElseLooks() || was_busy_) {
      StayAside();
    } else {
      WaitForEvents();
    }
  }
}

void Reactor::WaitForEvents() {
  quiet_looks_ = 0;
  was_busy_ = false;
  // Only looks: an event that it took along while it waits for its turn would
  // be seen by nobody until then, and one that polls may overtake for long.
  pollfd ready{gate_.get(), POLLIN, 0};
  (void)poll(&ready, 1, TimeoutMilliseconds());
  if (SomebodyElseLooks() && !stopping()) return;
  DrainWake();
  turn_.Enter();
  DoWhatIsDue();
  turn_.Leave();
}

void Reactor::StayAside() {
  const uint64_t polls = polls_.load(std::memory_order_relaxed);
  quiet_looks_ = polls == polls_seen_ ? quiet_looks_ + 1 : 0;
  polls_seen_ = polls;
  int timeout = TimeoutMilliseconds();
  bool far = quiet_looks_ >= kQuietLooks;
  if (far) {
    // The last sleeper leaves and then looks at the flag; this thread sets it
    // and then looks for sleepers.
    far_aside_.store(true, std::memory_order_seq_cst);
    far = bell_->SourcesAreWatched();
  }
  if (!far)
    timeout =
        timeout < 0 ? kNapMilliseconds : std::min(timeout, kNapMilliseconds);
  pollfd woken{wake_.get(), POLLIN, 0};
  (void)poll(&woken, 1, timeout);
  far_aside_.store(false, std::memory_order_seq_cst);
  // Between two of its sleeps a waiter is not seen, but what it did is.
  was_busy_ = polls_.load(std::memory_order_relaxed) - polls >= kBusyPolls;
  if (TimeoutMilliseconds() != 0) return DrainWake();
  DrainWake();
  turn_.Enter();
  RunDue();
  turn_.Leave();
}

bool Reactor::Poll() {
  const int64_t start = NowNanoseconds();
  polls_.fetch_add(1, std::memory_order_relaxed);
  if (!turn_.TryEnter()) return false;
  const bool any = DoWhatIsDue();
  turn_.Leave();
  CountPoll(start);
  return any;
}

bool Reactor::DoWhatIsDue() {
  epoll_event events[kMaxEvents];
  const int count = epoll_wait(epoll_.get(), events, kMaxEvents, 0);
  bool any = false;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == kWakeId) continue;
    std::shared_ptr<Handler> handler;
    {
      MutexLock lock(&mu_);
      const auto found = watched_.find(events[i].data.u64);
      if (found != watched_.end()) handler = found->second.handler;
    }
    if (handler == nullptr) continue;
    handler->OnEvents(events[i].events);
    any = true;
  }
  return RunDue() || any;
}

bool Reactor::RunDue() {
  std::vector<Task> due;
  {
    MutexLock lock(&mu_);
    due.swap(tasks_);
    const Clock::time_point now =
        timers_.empty() ? Clock::time_point::min() : Clock::now();
    while (!timers_.empty() && timers_.begin()->first <= now) {
      due.push_back(std::move(timers_.begin()->second));
      timers_.erase(timers_.begin());
    }
  }
  for (Task& task : due) task();
  return !due.empty();
}

void Reactor::Stop() {
  std::map<uint64_t, Watched> watched;
  std::vector<Task> tasks;
  std::multimap<Clock::time_point, Task> timers;
  {
    MutexLock lock(&mu_);
    stopping_ = true;
  }
  Wake();
  bell_->RemoveSource(gate_.get());
  if (thread_.joinable()) thread_.join();
  MutexLock lock(&mu_);
  watched.swap(watched_);
  tasks.swap(tasks_);
  timers.swap(timers_);
}

}  // namespace stagecoach::transport::tcp
