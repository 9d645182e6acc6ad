#include "coordinator/ticker.h"

#include <pthread.h>

#include <utility>

namespace stagecoach::coordinator {

Ticker::Ticker(absl::Duration interval, std::function<void()> tick)
    : interval_(interval), tick_(std::move(tick)), thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(), "ticker");
}

Ticker::~Ticker() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
  }
  stop_changed_.NotifyAll();
  thread_.join();
}

void Ticker::Loop() {
  while (true) {
    {
      const CondVar::TimePoint next = CondVar::DeadlineAfter(interval_);
      MutexLock lock(&mu_);
      while (!stopping_ && stop_changed_.WaitUntil(&mu_, next)) {
      }
      if (stopping_) return;
    }
    tick_();
  }
}

}  // namespace stagecoach::coordinator
