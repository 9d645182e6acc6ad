#ifndef STAGECOACH_CLIENT_OUTPUT_HELD_OUTPUT_H_
#define STAGECOACH_CLIENT_OUTPUT_HELD_OUTPUT_H_

#include <string>

#include "client/output/json.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/memory.pb.h"

// What is held for backwards to come, snapshots, and memory in words. Pure
// functions.
namespace stagecoach::client {

// The document of `memory held`: job_id, workers[] {worker step
// activation_bytes held_bytes held[] {stage microbatch op tensors bytes}},
// silent_workers[].
Json HeldJson(const v1::GetMemoryStatsResponse& response);
// One row for each op of each microbatch, and what holds most.
std::string HeldText(const v1::GetMemoryStatsResponse& response);

// How bytes are grouped by `memory stats --by`.
enum class MemoryGroup { kCategory, kStage, kMicrobatch, kOp };
// Microbatches and ops need a response with what is held.
bool NeedsHeld(MemoryGroup group);
// by[] {worker, category | stage | microbatch | op, bytes}, largest first.
Json MemoryGroupsJson(const v1::GetMemoryStatsResponse& response,
                      MemoryGroup group);
std::string MemoryGroupsText(const v1::GetMemoryStatsResponse& response,
                             MemoryGroup group);

// A trace in Chrome's format, which ui.perfetto.dev opens: a counter track of
// each worker's categories after each action. `snapshot` beside it is
// HeldJson with each worker's figures.
Json SnapshotJson(const v1::GetMemoryStatsResponse& response);

// What each figure means, with the job's numbers, and what to do about those
// that stand out.
std::string ExplainText(const v1::GetMemoryStatsResponse& response,
                        const v1::Job& job);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_HELD_OUTPUT_H_
