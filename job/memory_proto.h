#ifndef STAGECOACH_JOB_MEMORY_PROTO_H_
#define STAGECOACH_JOB_MEMORY_PROTO_H_

#include "absl/status/statusor.h"
#include "job/memory_prediction.h"
#include "job/memory_profile.h"
#include "stagecoach/v1/memory_profile.pb.h"

namespace stagecoach::job {

void ToProto(const WorkerMemoryProfile& profile,
             v1::WorkerMemoryProfile* proto);
void ToProto(const MemoryInterval& interval, v1::MemoryInterval* proto);

// kInvalidArgument if there are more categories than are known.
absl::StatusOr<WorkerMemoryProfile> FromProto(
    const v1::WorkerMemoryProfile& proto);
absl::StatusOr<MemoryInterval> FromProto(const v1::MemoryInterval& proto);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_MEMORY_PROTO_H_
