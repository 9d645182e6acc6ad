#ifndef STAGECOACH_JOB_PROFILE_PROTO_H_
#define STAGECOACH_JOB_PROFILE_PROTO_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "job/model_profile.h"
#include "stagecoach/v1/model_profile.pb.h"

namespace stagecoach::job {

void ToProto(const ModelProfile& profile, v1::ModelProfile* proto);
// kInvalidArgument unless it has `layers` layers and every figure is finite and
// not negative.
absl::StatusOr<ModelProfile> FromProto(const v1::ModelProfile& proto,
                                       int64_t layers);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_PROFILE_PROTO_H_
