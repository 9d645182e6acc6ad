#ifndef STAGECOACH_STAGE_WORKER_SESSION_PROTO_H_
#define STAGECOACH_STAGE_WORKER_SESSION_PROTO_H_

#include <vector>

#include "google/protobuf/repeated_ptr_field.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/placement.h"
#include "stage_worker/position.h"
#include "stagecoach/v1/session.pb.h"

// What a placement says, as a session's messages have it.
namespace stagecoach::worker {

void ToProto(const Position& position, v1::Position* proto);
void ToProto(const std::vector<MicrobatchLoss>& losses,
             google::protobuf::RepeatedPtrField<v1::MicrobatchLoss>* proto);
void ToProto(const Placement::StepOutcome& outcome, v1::Prepared* proto);
void ToProto(const ParameterDigest& digest, v1::ParameterDigest* proto);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_SESSION_PROTO_H_
