#ifndef STAGECOACH_BENCHMARKS_COORDINATOR_LOAD_SIMULATED_WORKERS_H_
#define STAGECOACH_BENCHMARKS_COORDINATOR_LOAD_SIMULATED_WORKERS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "stage_worker/session_stream.h"
#include "stagecoach/v1/session.grpc.pb.h"

namespace stagecoach::benchmarks {

// Workers as far as a coordinator can tell, each with a connection of its own:
// they register, beat, and answer everything at once and right, a step after
// the time that its compute would take. One whose stream ends registers again.
// Thread-safe.
class SimulatedWorkers {
 public:
  struct Options {
    std::string coordinator;
    int count = 0;
    absl::Duration step_time;
  };

  explicit SimulatedWorkers(const Options& options);
  ~SimulatedWorkers();

  // This worker's process is gone and stays so.
  void Kill(int worker);
  // All processes end and are started again.
  void RestartAll();

  // Welcomed and not cut since.
  int registered() const { return registered_; }
  int64_t heartbeats() const { return heartbeats_; }
  int64_t steps() const { return steps_; }  // prepared, over all workers

 private:
  struct Worker;

  void Open(Worker* worker, uint64_t incarnation);
  void OnMessage(Worker* worker, uint64_t incarnation,
                 const v1::CoordinatorMessage& message);
  void EndStep(Worker* worker, uint64_t incarnation,
               const v1::WorkerMessage& prepared);
  void OnDone(Worker* worker, uint64_t incarnation);
  void Beat(Worker* worker, uint64_t incarnation);
  // Runs `task` on the timer thread after `delay`.
  void After(absl::Duration delay, std::function<void()> task) SC_EXCLUDES(mu_);
  void RunTimer();

  const Options options_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<int> registered_{0};
  std::atomic<int64_t> heartbeats_{0};
  std::atomic<int64_t> steps_{0};
  std::atomic<int> open_streams_{0};

  Mutex mu_;
  CondVar changed_;
  bool stopping_ SC_GUARDED_BY(mu_) = false;
  std::multimap<absl::Time, std::function<void()>> due_ SC_GUARDED_BY(mu_);
  std::thread timer_;
};

}  // namespace stagecoach::benchmarks

#endif  // STAGECOACH_BENCHMARKS_COORDINATOR_LOAD_SIMULATED_WORKERS_H_
