#ifndef STAGECOACH_JOB_MEMORY_PREDICTION_H_
#define STAGECOACH_JOB_MEMORY_PREDICTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "job/job_spec.h"
#include "job/memory_profile.h"
#include "schedule/schedule.h"

namespace stagecoach::job {

// The peak of one worker's accounted bytes over a job.
struct MemoryInterval {
  // If every output is acknowledged at the moment it is sent, and produced in
  // its receiver's memory where it may be.
  CategoryBytes low;
  // If the send budget's worth of outputs is always unacknowledged, all of them
  // in this worker's memory, and the copy of a checkpoint stays until the next
  // one. With both versions of the neighbour's copies from the beginning of a
  // step on.
  CategoryBytes high;
};

struct MemoryQuestion {
  const schedule::Schedule* schedule = nullptr;    // lowered
  const schedule::Schedule* evaluation = nullptr;  // likewise; null: none
  ReleasePolicy release = ReleasePolicy::kAcknowledged;
  // Outputs may be produced in their receiver's memory (but with "never").
  bool in_place = true;
  // The job has a directory for checkpoints.
  bool checkpoints = false;
  // Versions of each stage's state that are kept beside the engine's, by its
  // worker and by that one's neighbour (the next worker): 2 at the most, 0
  // without recovery.neighbour_copy.
  int copies = 0;
  // Of each worker's receive pools, by index.
  std::vector<int64_t> receive_pool_bytes;
  std::vector<WorkerMemoryProfile> profiles;  // by worker index
};

// Whether outputs may be produced in their receiver's memory: not where every
// path is one between hosts.
inline bool MayProduceInPlace(TransportKind transport) {
  return transport != TransportKind::kTcp &&
         transport != TransportKind::kNccl && transport != TransportKind::kUcx;
}

// Walks each worker's list with what one microbatch of its stages was measured
// to take. No time enters: a worker executes its list strictly in order, so
// only the moments at which acknowledgements come are open, and these the
// interval spans. kInvalidArgument if profiles and schedule do not belong
// together, or the list splits a backward that the engine cannot.
absl::StatusOr<std::vector<MemoryInterval>> PredictMemory(
    const MemoryQuestion& question);

// What each worker's receive pools take: slots of the plan's edges, and two for
// the tied gradient where its leaves are on two workers.
std::vector<int64_t> ReceivePoolBytes(const schedule::Schedule& schedule,
                                      int64_t boundary_bytes,
                                      int64_t tied_gradient_bytes);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_MEMORY_PREDICTION_H_
