#ifndef STAGECOACH_BASE_SERIAL_EXECUTOR_H_
#define STAGECOACH_BASE_SERIAL_EXECUTOR_H_

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace stagecoach {

// Runs closures one after the other, in the order they were given. State that
// only closures of one executor touch needs no lock. Thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;
  // Never runs `task` before returning. Dropped after shutdown.
  virtual void Add(std::function<void()> task) = 0;
  // As Add, for what can wait: runs no later than, and before, whatever is
  // added next. Where much of it comes in, it costs no wake-up each.
  virtual void AddUnhurried(std::function<void()> task) {
    Add(std::move(task));
  }
};

// One thread of its own. The destructor runs what was added before, then joins;
// it must not be called from a task.
class SerialExecutor final : public Executor {
 public:
  // `name` shows in `top -H` and in debuggers; at most 15 characters.
  explicit SerialExecutor(const std::string& name);
  ~SerialExecutor() override;

  void Add(std::function<void()> task) override SC_EXCLUDES(mu_);
  void AddUnhurried(std::function<void()> task) override SC_EXCLUDES(mu_);
  // Waits until all tasks added before have run. Not from a task.
  void Drain() SC_EXCLUDES(mu_);

 private:
  // False after shutdown.
  bool Push(std::function<void()> task) SC_EXCLUDES(mu_);
  void Loop() SC_EXCLUDES(mu_);

  Mutex mu_;
  CondVar wake_;
  std::deque<std::function<void()>> tasks_ SC_GUARDED_BY(mu_);
  bool stopping_ SC_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// For tests: tasks run when the test says, on the test's thread.
class ManualExecutor final : public Executor {
 public:
  void Add(std::function<void()> task) override SC_EXCLUDES(mu_);
  // Runs one task; false if there was none.
  bool RunOne() SC_EXCLUDES(mu_);
  // Runs until nothing is left, including what tasks add; returns how many.
  int RunAll() SC_EXCLUDES(mu_);

 private:
  Mutex mu_;
  std::deque<std::function<void()>> tasks_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_SERIAL_EXECUTOR_H_
