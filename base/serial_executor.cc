#include "base/serial_executor.h"

#include <pthread.h>

#include <utility>

#include "base/notification.h"

namespace stagecoach {
namespace {

// The kernel's limit for a thread's name, without the final zero.
constexpr size_t kMaxThreadName = 15;

}  // namespace

SerialExecutor::SerialExecutor(const std::string& name)
    : thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(),
                     name.substr(0, kMaxThreadName).c_str());
}

SerialExecutor::~SerialExecutor() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
  }
  wake_.NotifyOne();
  thread_.join();
}

void SerialExecutor::Add(std::function<void()> task) {
  if (Push(std::move(task))) wake_.NotifyOne();
}

void SerialExecutor::AddUnhurried(std::function<void()> task) {
  Push(std::move(task));
}

bool SerialExecutor::Push(std::function<void()> task) {
  MutexLock lock(&mu_);
  if (stopping_) return false;
  tasks_.push_back(std::move(task));
  return true;
}

void SerialExecutor::Drain() {
  Notification done;
  Add([&done] { done.Notify(); });
  done.WaitForNotification();
}

void SerialExecutor::Loop() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(&mu_);
      while (tasks_.empty() && !stopping_) wake_.Wait(&mu_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

void ManualExecutor::Add(std::function<void()> task) {
  MutexLock lock(&mu_);
  tasks_.push_back(std::move(task));
}

bool ManualExecutor::RunOne() {
  std::function<void()> task;
  {
    MutexLock lock(&mu_);
    if (tasks_.empty()) return false;
    task = std::move(tasks_.front());
    tasks_.pop_front();
  }
  task();
  return true;
}

int ManualExecutor::RunAll() {
  int count = 0;
  while (RunOne()) ++count;
  return count;
}

}  // namespace stagecoach
