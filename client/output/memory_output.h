#ifndef STAGECOACH_CLIENT_OUTPUT_MEMORY_OUTPUT_H_
#define STAGECOACH_CLIENT_OUTPUT_MEMORY_OUTPUT_H_

#include <string>

#include "client/output/json.h"
#include "stagecoach/v1/memory.pb.h"

// Memory statistics as a JSON document and as text. Pure functions.
namespace stagecoach::client {

// The document of `memory stats`. A figure that a worker's backend does not
// know is absent, never 0.
Json MemoryStatsJson(const v1::GetMemoryStatsResponse& response);

// What the answer cost the worker, where it says so.
void AddAnswerTime(const v1::WorkerMemory& worker, Json* json);

// Four tables: memory, categories, outputs by stage, acknowledgements; each
// with a total. Peaks of different workers are not added up: they are of
// different moments.
std::string MemoryStatsText(const v1::GetMemoryStatsResponse& response);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_MEMORY_OUTPUT_H_
