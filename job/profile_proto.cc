#include "job/profile_proto.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "job/memory_proto.h"

namespace stagecoach::job {
namespace {

void ToProto(const LayerProfile& profile, v1::LayerProfile* proto) {
  proto->set_forward_seconds(profile.forward_seconds);
  proto->set_backward_seconds(profile.backward_seconds);
  proto->set_backward_input_seconds(profile.backward_input_seconds);
  proto->set_backward_weight_seconds(profile.backward_weight_seconds);
  proto->set_in_flight_bytes(profile.in_flight_bytes);
}

LayerProfile FromProto(const v1::LayerProfile& proto) {
  LayerProfile profile;
  profile.forward_seconds = proto.forward_seconds();
  profile.backward_seconds = proto.backward_seconds();
  profile.backward_input_seconds = proto.backward_input_seconds();
  profile.backward_weight_seconds = proto.backward_weight_seconds();
  profile.in_flight_bytes = proto.in_flight_bytes();
  return profile;
}

bool Sound(const LayerProfile& profile) {
  for (const double seconds :
       {profile.forward_seconds, profile.backward_seconds,
        profile.backward_input_seconds, profile.backward_weight_seconds}) {
    if (!std::isfinite(seconds) || seconds < 0) return false;
  }
  return profile.in_flight_bytes >= 0;
}

bool Sound(const ModelProfile& profile) {
  if (!Sound(profile.embedding) || !Sound(profile.head)) return false;
  for (const LayerProfile& layer : profile.layers) {
    if (!Sound(layer)) return false;
  }
  return std::isfinite(profile.copy_seconds) && profile.copy_seconds >= 0;
}

}  // namespace

void ToProto(const ModelProfile& profile, v1::ModelProfile* proto) {
  ToProto(profile.embedding, proto->mutable_embedding());
  for (const LayerProfile& layer : profile.layers) {
    ToProto(layer, proto->add_layers());
  }
  ToProto(profile.head, proto->mutable_head());
  proto->set_copy_seconds(profile.copy_seconds);
  for (const WorkerMemoryProfile& worker : profile.workers) {
    ToProto(worker, proto->add_workers());
  }
}

absl::StatusOr<ModelProfile> FromProto(const v1::ModelProfile& proto,
                                       int64_t layers) {
  if (proto.layers_size() != layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("a profile of ", proto.layers_size(),
                     " layers, but the model has ", layers));
  }
  ModelProfile profile;
  profile.embedding = FromProto(proto.embedding());
  for (const v1::LayerProfile& layer : proto.layers()) {
    profile.layers.push_back(FromProto(layer));
  }
  profile.head = FromProto(proto.head());
  profile.copy_seconds = proto.copy_seconds();
  for (const v1::WorkerMemoryProfile& worker : proto.workers()) {
    SC_ASSIGN_OR_RETURN(WorkerMemoryProfile memory, FromProto(worker));
    profile.workers.push_back(std::move(memory));
  }
  if (Sound(profile)) return profile;
  return absl::InvalidArgumentError(
      "a profile with a duration or size that is none");
}

}  // namespace stagecoach::job
