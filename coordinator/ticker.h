#ifndef STAGECOACH_COORDINATOR_TICKER_H_
#define STAGECOACH_COORDINATOR_TICKER_H_

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace stagecoach::coordinator {

// Calls `tick` again and again, `interval` of real time apart, on a thread of
// its own, until destroyed. `tick` must not block.
class Ticker {
 public:
  Ticker(absl::Duration interval, std::function<void()> tick);
  ~Ticker();

 private:
  void Loop() SC_EXCLUDES(mu_);

  const absl::Duration interval_;
  const std::function<void()> tick_;
  Mutex mu_;
  CondVar stop_changed_;
  bool stopping_ SC_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_TICKER_H_
