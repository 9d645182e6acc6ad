#ifndef STAGECOACH_STAGE_WORKER_TESTING_PLACEMENT_RIG_H_
#define STAGECOACH_STAGE_WORKER_TESTING_PLACEMENT_RIG_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "job/job_spec.h"
#include "job/plan.h"
#include "memory/accounting_allocator.h"
#include "stage_worker/engine/synthetic/synthetic_engine.h"
#include "stage_worker/placement.h"
#include "transport/loopback/loopback.h"
#include "transport/testing/faulty_endpoint.h"

namespace stagecoach::worker {

// All placements of one job in this process: synthetic engines, a data path
// (loopback unless said otherwise), one thread for each worker's step.
// Thread-compatible.
class PlacementRig {
 public:
  struct Options {
    job::JobSpec spec;
    SyntheticOptions synthetic;     // of every worker
    std::string path = "loopback";  // or "shm", "tcp"
    // Of worker `faulty_worker`, -1: of all.
    transport::FaultPlan faults;
    int faulty_worker = -1;
    Clock* clock = Clock::Real();
  };

  // Builds and connects.
  static absl::StatusOr<std::unique_ptr<PlacementRig>> Create(
      const Options& options);

  // One step on all workers; the first error by worker, if any.
  absl::Status RunStep(int64_t step);
  // The outcome of the last step of a worker.
  const absl::StatusOr<Placement::StepOutcome>& outcome(int worker) const {
    return outcomes_[static_cast<size_t>(worker)];
  }
  // Sum of the losses of the last step, in microbatch order.
  double Loss() const;
  Placement& placement(int worker) {
    return *placements_[static_cast<size_t>(worker)];
  }
  int workers() const { return static_cast<int>(placements_.size()); }
  const job::JobPlan& plan() const { return plan_; }

 private:
  PlacementRig() = default;
  absl::Status Build(const Options& options, int worker);
  absl::StatusOr<std::unique_ptr<transport::Endpoint>> NewEndpoint(
      const std::string& path, const transport::EndpointOptions& options);

  job::JobPlan plan_;
  // Outlive the placements.
  std::vector<std::unique_ptr<memory::AccountingAllocator>> allocators_;
  transport::LoopbackHub hub_;
  std::vector<std::unique_ptr<Placement>> placements_;
  std::vector<absl::StatusOr<Placement::StepOutcome>> outcomes_;
};

// A small job for rigs.
job::JobSpec RigSpec(int workers, const std::string& schedule, int microbatches,
                     int stages_per_worker = 1);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_TESTING_PLACEMENT_RIG_H_
