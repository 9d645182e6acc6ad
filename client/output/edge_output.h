#ifndef STAGECOACH_CLIENT_OUTPUT_EDGE_OUTPUT_H_
#define STAGECOACH_CLIENT_OUTPUT_EDGE_OUTPUT_H_

#include <string>
#include <vector>

#include "client/output/json.h"
#include "stagecoach/v1/job.pb.h"

// A job's edges: which way they took, and what has gone over them. Pure
// functions.
namespace stagecoach::client {

// {edge transport why transfers in_place}; `text` is one of job.edges().
Json EdgeJson(const v1::Job& job, const std::string& text);
Json LinkJson(const v1::LinkCounters& link);

// Those of job.edges() that begin or end at this worker.
std::vector<std::string> EdgesOfWorker(const v1::Job& job,
                                       const std::string& worker);

// One line for each transport and reason, "shm (same host)", then how many
// transfers were produced in place, then what broke. Behind the first an
// indentation.
std::string TransportLine(const v1::Job& job);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_EDGE_OUTPUT_H_
