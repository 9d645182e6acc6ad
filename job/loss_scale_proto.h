#ifndef STAGECOACH_JOB_LOSS_SCALE_PROTO_H_
#define STAGECOACH_JOB_LOSS_SCALE_PROTO_H_

#include "job/loss_scale.h"
#include "stagecoach/v1/job.pb.h"

// The loss scale's state as a message. What comes back is as it was sent, and
// trusted: manifests are checked where they are read.
namespace stagecoach::job {

inline v1::LossScaleState ToProto(const LossScaleState& state) {
  v1::LossScaleState proto;
  proto.set_value(state.value);
  proto.set_good_steps(state.good_steps);
  return proto;
}

inline LossScaleState FromProto(const v1::LossScaleState& proto) {
  LossScaleState state;
  state.value = proto.value();
  state.good_steps = proto.good_steps();
  return state;
}

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_LOSS_SCALE_PROTO_H_
