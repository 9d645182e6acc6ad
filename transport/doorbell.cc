#include "transport/doorbell.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/status.h"
#include "transport/shared_memory.h"

namespace stagecoach::transport {
namespace {

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
  SC_ASSIGN_OR_RETURN(std::shared_ptr<SharedMemory> memory,
                      SharedMemory::FromFd(UniqueFd(fd)));
  if (memory->bytes() != kBellBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a doorbell has ", kBellBytes, " bytes, this has ", memory->bytes()));
  }
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

// Ring counts and then looks for sleepers; Wait enters itself as a sleeper and
// then looks at the count. In the single order of these four operations one of
// the two sees the other, so no ring is slept through.
void Doorbell::Ring() {
  shared_->count.fetch_add(1, std::memory_order_seq_cst);
  if (shared_->sleepers.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &shared_->count, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Doorbell::Wait(uint32_t seen, absl::Duration timeout) {
  if (Count() != seen || timeout <= absl::ZeroDuration()) return;
  const bool forever = timeout > kLongest;
  const timespec deadline = MonotonicAfter(std::min(timeout, kLongest));
  shared_->sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (shared_->count.load(std::memory_order_seq_cst) == seen) {
    if (!FutexWait(&shared_->count, seen, forever ? nullptr : &deadline)) break;
  }
  shared_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace stagecoach::transport
