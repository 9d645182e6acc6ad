#include "tests/nccl_host_emulator/host_stream.h"

#include <thread>
#include <utility>

namespace nccl_host_emulator {

std::shared_ptr<HostStream> HostStream::Create() {
  std::shared_ptr<HostStream> stream(new HostStream);
  // Detached: as on a GPU, closing does not wait for what is under way.
  std::thread([stream] { stream->Loop(); }).detach();
  return stream;
}

void HostStream::Add(Work work) {
  std::lock_guard<std::mutex> lock(mu_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

void HostStream::Synchronize() {
  std::mutex mu;
  std::condition_variable reached_changed;
  bool reached = false;
  Add([&] {
    std::lock_guard<std::mutex> lock(mu);
    reached = true;
    reached_changed.notify_all();
  });
  std::unique_lock<std::mutex> lock(mu);
  while (!reached) reached_changed.wait(lock);
}

void HostStream::Close() {
  std::lock_guard<std::mutex> lock(mu_);
  closed_ = true;
  changed_.notify_all();
}

void HostStream::Loop() {
  std::unique_lock<std::mutex> lock(mu_);
  while (true) {
    while (queue_.empty() && !closed_) changed_.wait(lock);
    if (queue_.empty()) return;
    Work work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

void HostEvent::Record(HostStream* stream,
                       const std::shared_ptr<HostEvent>& self) {
  uint64_t point = 0;
  {
    std::lock_guard<std::mutex> lock(mu_);
    point = ++recorded_;
  }
  if (stream == nullptr) return Pass(point);
  stream->Add([self, point] { self->Pass(point); });
}

void HostEvent::Pass(uint64_t point) {
  std::lock_guard<std::mutex> lock(mu_);
  if (point > passed_) passed_ = point;
  changed_.notify_all();
}

bool HostEvent::HasPassed() {
  std::lock_guard<std::mutex> lock(mu_);
  return passed_ >= recorded_;
}

void HostEvent::WaitFor(uint64_t point) {
  std::unique_lock<std::mutex> lock(mu_);
  while (passed_ < point) changed_.wait(lock);
}

void HostEvent::HoldBack(HostStream* stream,
                         const std::shared_ptr<HostEvent>& self) {
  uint64_t point = 0;
  {
    std::lock_guard<std::mutex> lock(mu_);
    point = recorded_;
  }
  if (stream == nullptr) return WaitFor(point);
  stream->Add([self, point] { self->WaitFor(point); });
}

}  // namespace nccl_host_emulator
