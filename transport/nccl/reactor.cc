#include "transport/nccl/reactor.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/time/time.h"

namespace stagecoach::transport::nccl {
namespace {

// Doubles with each look that found nothing new.
constexpr absl::Duration kFirstPoll = absl::Microseconds(20);
constexpr absl::Duration kLastPoll = absl::Microseconds(500);
constexpr int kDoublings = 5;
// Asynchronous errors of communicators that do nothing, and deadlines.
constexpr absl::Duration kIdlePoll = absl::Milliseconds(100);

}  // namespace

Reactor::~Reactor() { Stop(); }

void Reactor::Start(std::function<void()> prepare,
                    std::function<Activity()> step) {
  thread_ =
      std::thread([this, prepare = std::move(prepare), step = std::move(step)] {
        pthread_setname_np(pthread_self(), "nccl");
        prepare();
        Loop(step);
      });
}

void Reactor::Stop() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Reactor::Post(std::function<void()> task) {
  MutexLock lock(&mu_);
  if (stopping_) return;
  tasks_.push_back(std::move(task));
  changed_.NotifyAll();
}

void Reactor::Wake() {
  MutexLock lock(&mu_);
  woken_ = true;
  changed_.NotifyAll();
}

void Reactor::Loop(const std::function<Activity()>& step) {
  Activity activity = Activity::kIdle;
  std::deque<std::function<void()>> tasks;
  while (AwaitTasks(activity, &tasks)) {
    for (std::function<void()>& task : tasks) task();
    tasks.clear();
    activity = step();
    quiet_polls_ = activity == Activity::kWaiting ? quiet_polls_ + 1 : 0;
  }
}

bool Reactor::AwaitTasks(Activity activity,
                         std::deque<std::function<void()>>* tasks) {
  absl::Duration sleep = kIdlePoll;
  if (activity == Activity::kBusy) sleep = absl::ZeroDuration();
  if (activity == Activity::kWaiting) {
    sleep = std::min(kLastPoll,
                     kFirstPoll * (1 << std::min(quiet_polls_, kDoublings)));
  }
  MutexLock lock(&mu_);
  if (tasks_.empty() && !woken_ && !stopping_ && sleep > absl::ZeroDuration()) {
    changed_.WaitFor(&mu_, sleep);
  }
  woken_ = false;
  tasks->swap(tasks_);
  return !stopping_ || !tasks->empty();
}

}  // namespace stagecoach::transport::nccl
