#ifndef STAGECOACH_COORDINATOR_COORDINATOR_H_
#define STAGECOACH_COORDINATOR_COORDINATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/controller.h"

namespace stagecoach::coordinator {

// A coordinator: its services on one address. Thread-safe.
class Coordinator {
 public:
  struct Options {
    std::string listen = "127.0.0.1:7070";
    bool allow_plaintext = false;
    // Where the journal is, created if it is not there; empty: nothing outlives
    // this coordinator.
    std::string data_directory;
    // Its term comes from the journal and the wall clock, so that each life has
    // a greater one.
    ControllerOptions controller;
    // Between looks at the clock.
    absl::Duration tick = absl::Milliseconds(100);
    // Must outlive the coordinator.
    Clock* clock = Clock::Real();
    // Events that may wait for a client that follows a job.
    size_t watch_queue_limit = 256;
  };

  // Has taken over what the journal holds, and is listening, when it returns.
  // kInvalidArgument for times that do not increase; kAlreadyExists if another
  // coordinator has the data directory, kDataLoss if the journal is damaged;
  // else as rpc::Listen.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(
      const Options& options);
  // Shuts down.
  ~Coordinator();

  // Where it really listens.
  const std::string& address() const;
  // Ends all streams with UNAVAILABLE and stops listening; workers stay and try
  // again. Blocks, but not much longer than `grace`. Idempotent.
  void Shutdown(absl::Duration grace = absl::Seconds(3));

 private:
  class Impl;
  explicit Coordinator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_COORDINATOR_H_
