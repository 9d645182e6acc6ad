#include "transport/doorbell.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <utility>

#include "base/status.h"
#include "transport/shared_memory.h"
#include "transport/unique_fd.h"

namespace stagecoach::transport {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBellBytes = 4096;
// Longer waits are waits for ever.
constexpr absl::Duration kLongest = absl::Hours(24 * 365);

timespec MonotonicAfter(absl::Duration timeout) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::ToTimespec(absl::DurationFromTimespec(now) + timeout);
}

// The word is in memory of several processes: no FUTEX_PRIVATE_FLAG. The
// deadline is absolute, on CLOCK_MONOTONIC (FUTEX_WAIT's would be relative).
// False once it has passed.
bool FutexWait(std::atomic<uint32_t>* word, uint32_t seen,
               const timespec* deadline) {
  const long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen,
                              deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
  return result == 0 || errno == EAGAIN || errno == EINTR;
}

// Whether `done` within that time. Lets others have the core meanwhile: the one
// that is waited for may need it.
template <typename Done>
bool SpinUntil(Done&& done, SpinPolicy::Duration limit) {
  if (limit <= SpinPolicy::Duration::zero()) return false;
  const auto end = Clock::now() + limit;
  do {
    if (done()) return true;
    sched_yield();
  } while (Clock::now() < end);
  return false;
}

// What wakes this thread from a sleep on sources: it sleeps on one bell at a
// time. Invalid if the process has no descriptors left.
int WakeFdOfThread() {
  static thread_local const UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return fd.get();
}

void Drain(int event_fd) {
  uint64_t count = 0;
  (void)!read(event_fd, &count, sizeof(count));
}

}  // namespace

// Zero is the state of a fresh memfd. A process that dies asleep leaves
// `sleepers` too high, which costs needless system calls and nothing else.
struct Doorbell::Shared {
  std::atomic<uint32_t> count;
  std::atomic<uint32_t> sleepers;
};

absl::StatusOr<std::unique_ptr<Doorbell>> Doorbell::Create() {
  SC_ASSIGN_OR_RETURN(std::shared_ptr<SharedMemory> memory,
                      SharedMemory::Create("stagecoach-doorbell", kBellBytes));
  std::unique_ptr<Doorbell> bell(
      new Doorbell(memory->fd(), reinterpret_cast<Shared*>(memory->data())));
  memory->Leak();  // the bell's now
  return bell;
}

absl::StatusOr<std::unique_ptr<Doorbell>> Doorbell::FromFd(int fd) {
  UniqueFd owned(fd);
  SC_ASSIGN_OR_RETURN(const size_t bytes, SharedMemory::BytesBehind(fd));
  if (bytes != kBellBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a doorbell has ", kBellBytes, " bytes, this has ", bytes));
  }
  SC_ASSIGN_OR_RETURN(std::shared_ptr<SharedMemory> memory,
                      SharedMemory::FromFd(std::move(owned)));
  std::unique_ptr<Doorbell> bell(
      new Doorbell(memory->fd(), reinterpret_cast<Shared*>(memory->data())));
  memory->Leak();
  return bell;
}

Doorbell::~Doorbell() {
  munmap(shared_, kBellBytes);
  close(fd_);
}

uint32_t Doorbell::Count() const {
  return shared_->count.load(std::memory_order_seq_cst);
}

int Doorbell::fd() {
  if (!is_shared_.exchange(true, std::memory_order_seq_cst)) WakeWatchers();
  return fd_;
}

void Doorbell::AddSource(int source, std::function<void()> on_unwatched) {
  MutexLock lock(&mu_);
  sources_.push_back(Source{source, std::move(on_unwatched)});
  ++source_count_;
}

void Doorbell::RemoveSource(int source) {
  MutexLock lock(&mu_);
  const auto found =
      std::find_if(sources_.begin(), sources_.end(),
                   [source](const Source& s) { return s.fd == source; });
  if (found == sources_.end()) return;
  sources_.erase(found);
  --source_count_;
}

// Ring counts and then looks for sleepers; Wait enters itself as a sleeper and
// then looks at the count. In the single order of these four operations one of
// the two sees the other, so no ring is slept through.
void Doorbell::Ring() {
  shared_->count.fetch_add(1, std::memory_order_seq_cst);
  if (SourcesAreWatched()) WakeWatchers();
  if (shared_->sleepers.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &shared_->count, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Doorbell::WakeWatchers() {
  const uint64_t one = 1;
  MutexLock lock(&mu_);
  for (const int fd : wake_fds_) (void)!write(fd, &one, sizeof(one));
}

bool Doorbell::SleepsOnSources() const {
  return source_count_.load(std::memory_order_relaxed) > 0 &&
         !is_shared_.load(std::memory_order_seq_cst) && WakeFdOfThread() >= 0;
}

void Doorbell::Wait(uint32_t seen, absl::Duration timeout) {
  if (Count() != seen || timeout <= absl::ZeroDuration()) return;
  const auto start = Clock::now();
  const auto spin =
      std::min(spin_.Budget(), absl::ToChronoNanoseconds(timeout));
  if (SleepsOnSources()) {
    WaitOnSources(seen, timeout, spin);
  } else {
    WaitOnFutex(seen, timeout, spin);
  }
  spin_.Note(Clock::now() - start);
}

void Doorbell::WaitOnFutex(uint32_t seen, absl::Duration timeout,
                           SpinPolicy::Duration spin) {
  if (SpinUntil([&] { return Count() != seen; }, spin)) return;
  const bool forever = timeout > kLongest;
  const timespec deadline = MonotonicAfter(std::min(timeout, kLongest));
  shared_->sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (shared_->count.load(std::memory_order_seq_cst) == seen) {
    if (!FutexWait(&shared_->count, seen, forever ? nullptr : &deadline)) break;
  }
  shared_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

// May wake for nothing, which every loop around Wait() can bear.
void Doorbell::WaitOnSources(uint32_t seen, absl::Duration timeout,
                             SpinPolicy::Duration spin) {
  const int wake = WakeFdOfThread();
  std::vector<pollfd> fds = {pollfd{wake, POLLIN, 0}};
  {
    MutexLock lock(&mu_);
    wake_fds_.push_back(wake);
    for (const Source& source : sources_) {
      fds.push_back(pollfd{source.fd, POLLIN, 0});
    }
    watchers_.fetch_add(1, std::memory_order_seq_cst);
  }
  const auto has_news = [&] {
    return Count() != seen || poll(fds.data(), fds.size(), 0) > 0;
  };
  // As above; and fd() marks the bell as shared and then looks for sleepers.
  if (!SpinUntil(has_news, spin) && Count() == seen &&
      !is_shared_.load(std::memory_order_seq_cst)) {
    const timespec limit = absl::ToTimespec(std::min(timeout, kLongest));
    (void)ppoll(fds.data(), fds.size(), &limit, nullptr);
  }
  MutexLock lock(&mu_);
  wake_fds_.erase(std::find(wake_fds_.begin(), wake_fds_.end(), wake));
  // What was written since would end the next sleep at once, for nothing.
  if (fds.front().revents != 0) Drain(wake);
  if (watchers_.fetch_sub(1, std::memory_order_seq_cst) > 1) return;
  for (const Source& source : sources_) source.on_unwatched();
}

}  // namespace stagecoach::transport
