#ifndef STAGECOACH_STAGE_WORKER_ENGINE_QUESTIONS_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_QUESTIONS_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::worker {

// What only the engine thread can tell, asked by others. The engine thread
// looks in between two actions and while it waits, so no step stops for a
// question, and a look costs nothing where nobody has asked. Thread-safe.
class EngineQuestions {
 public:
  // `took`: the engine thread's time.
  using Answer = std::function<void(std::vector<HeldBytes>,
                                    std::chrono::nanoseconds took)>;

  // `answer` runs once, on the engine thread, and must not block.
  void Ask(Answer answer) SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    waiting_.push_back(std::move(answer));
    asked_.store(true, std::memory_order_release);
  }

  // On the engine thread. One walk answers all who wait.
  void Serve(StageEngine* engine) SC_EXCLUDES(mu_) {
    if (!asked_.load(std::memory_order_acquire)) return;
    std::vector<Answer> waiting;
    {
      MutexLock lock(&mu_);
      waiting.swap(waiting_);
      asked_.store(false, std::memory_order_release);
    }
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<HeldBytes> held =
        engine == nullptr ? std::vector<HeldBytes>() : engine->ListHeld();
    const auto took = std::chrono::steady_clock::now() - begin;
    for (const Answer& answer : waiting) answer(held, took);
  }

 private:
  std::atomic<bool> asked_{false};
  Mutex mu_;
  std::vector<Answer> waiting_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_QUESTIONS_H_
