#include "transport/two_sided/reactor.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach::transport::two_sided {
namespace {

// Doubles with each look that found nothing new.
constexpr absl::Duration kFirstPoll = absl::Microseconds(20);
constexpr absl::Duration kLastPoll = absl::Microseconds(500);
constexpr int kDoublings = 5;
// Asynchronous errors of communicators that do nothing, and deadlines.
constexpr absl::Duration kIdlePoll = absl::Milliseconds(100);

}  // namespace

Reactor::~Reactor() { Stop(); }

absl::Status Reactor::Start(Work work) {
  work_ = std::move(work);
  bell_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell_.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(work_.name, ": eventfd: ", strerror(errno)));
  }
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), work_.name.c_str());
    work_.prepare();
    Loop();
  });
  return absl::OkStatus();
}

void Reactor::Stop() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    RingLocked();
  }
  if (thread_.joinable()) thread_.join();
}

void Reactor::Post(std::function<void()> task) {
  MutexLock lock(&mu_);
  if (stopping_) return;
  tasks_.push_back(std::move(task));
  RingLocked();
}

void Reactor::Wake() {
  MutexLock lock(&mu_);
  woken_ = true;
  RingLocked();
}

void Reactor::RingLocked() {
  if (std::exchange(sleeping_, false)) (void)eventfd_write(bell_.get(), 1);
}

void Reactor::Loop() {
  absl::Duration sleep = kIdlePoll;
  Tasks tasks;
  while (true) {
    if (sleep > absl::ZeroDuration()) Sleep(sleep);
    if (!TakeTasks(&tasks)) return;
    for (std::function<void()>& task : tasks) task();
    tasks.clear();
    sleep = SleepAfter(work_.step());
  }
}

absl::Duration Reactor::SleepAfter(Activity activity) {
  quiet_polls_ = activity == Activity::kWaiting ? quiet_polls_ + 1 : 0;
  switch (activity) {
    case Activity::kBusy:
      return absl::ZeroDuration();
    case Activity::kWaiting:
      return std::min(kLastPoll,
                      kFirstPoll * (1 << std::min(quiet_polls_, kDoublings)));
    default:
      return kIdlePoll;
  }
}

void Reactor::Sleep(absl::Duration at_most) {
  {
    MutexLock lock(&mu_);
    if (!tasks_.empty() || woken_ || stopping_) return;
    // From here on whoever has something rings.
    sleeping_ = true;
  }
  std::vector<pollfd> events = {{bell_.get(), POLLIN, 0}};
  if (work_.arm == nullptr || work_.arm(&events)) {
    const timespec timeout = absl::ToTimespec(at_most);
    (void)ppoll(events.data(), events.size(), &timeout, nullptr);
  }
  MutexLock lock(&mu_);
  // Rung already: the bell is to be silent again.
  if (!std::exchange(sleeping_, false)) {
    eventfd_t rings = 0;
    (void)eventfd_read(bell_.get(), &rings);
  }
}

bool Reactor::TakeTasks(Tasks* tasks) {
  MutexLock lock(&mu_);
  woken_ = false;
  tasks->swap(tasks_);
  return !stopping_ || !tasks->empty();
}

}  // namespace stagecoach::transport::two_sided
