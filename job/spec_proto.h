#ifndef STAGECOACH_JOB_SPEC_PROTO_H_
#define STAGECOACH_JOB_SPEC_PROTO_H_

#include "absl/status/statusor.h"
#include "job/job_spec.h"
#include "stagecoach/v1/job_spec.pb.h"

namespace stagecoach::job {

void ToProto(const JobSpec& spec, v1::JobSpec* proto);
// kInvalidArgument for enum values that this version does not know.
absl::StatusOr<JobSpec> FromProto(const v1::JobSpec& proto);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_SPEC_PROTO_H_
