#ifndef STAGECOACH_COORDINATOR_PUBLISH_H_
#define STAGECOACH_COORDINATOR_PUBLISH_H_

#include <cstdint>

#include "absl/time/time.h"
#include "coordinator/cluster_state.h"
#include "coordinator/failure.h"
#include "stagecoach/v1/cluster.pb.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/session.pb.h"

namespace stagecoach::coordinator {

// How much of a job to show.
struct JobView {
  bool spec = false;
  bool stages = false;
  bool parameters = false;
  // Steps from `first_step`, at most `max_steps` of them.
  int64_t first_step = 0;
  int64_t max_steps = 0;
};

// The only conversion between internal and published states. FAILING is shown
// as the state that it interrupts: the job's outcome is published once its
// workers have let go.
v1::JobState PublishedState(const JobRecord& job);
v1::FailureKind ToProto(FailureKind kind);
FailureKind FromProto(v1::FailureKind kind);
Position FromProto(const v1::Position& position);

void ToProto(const JobRecord& job, const JobView& view, absl::Time now,
             v1::Job* proto);
// Of `job`'s history.
void ToProto(const JobHistoryEntry& entry, const JobRecord& job,
             v1::JobEvent* proto);
void ToProto(const WorkerRecord& worker, const JobRecord* job,
             v1::WorkerInfo* proto);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_PUBLISH_H_
