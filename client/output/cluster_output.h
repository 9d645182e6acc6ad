#ifndef STAGECOACH_CLIENT_OUTPUT_CLUSTER_OUTPUT_H_
#define STAGECOACH_CLIENT_OUTPUT_CLUSTER_OUTPUT_H_

#include <string>

#include "client/output/json.h"
#include "stagecoach/v1/cluster.pb.h"
#include "stagecoach/v1/job.pb.h"

// Workers and versions as JSON documents and as text. Pure functions.
namespace stagecoach::client {

// "IDLE"; a state that this version does not know by its number.
std::string WorkerStateName(v1::WorkerState state);

// {"workers": [{id state reason ...}]}.
Json WorkerListJson(const v1::ListWorkersResponse& response);
std::string WorkerListText(const v1::ListWorkersResponse& response);

// An entry of the list, paths[] {transport available reason}, and the edges[]
// of its job (null: it has none) that begin or end at it.
Json WorkerJson(const v1::WorkerInfo& worker, const v1::Job* job);
std::string WorkerText(const v1::WorkerInfo& worker, const v1::Job* job);

// `coordinator` is null if none answers.
Json VersionJson(const v1::GetCoordinatorResponse* coordinator);
std::string VersionText(const v1::GetCoordinatorResponse* coordinator);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_CLUSTER_OUTPUT_H_
