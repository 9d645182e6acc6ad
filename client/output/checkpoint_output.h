#ifndef STAGECOACH_CLIENT_OUTPUT_CHECKPOINT_OUTPUT_H_
#define STAGECOACH_CLIENT_OUTPUT_CHECKPOINT_OUTPUT_H_

#include <string>
#include <vector>

#include "client/output/json.h"
#include "stage_worker/checkpoint/export.h"
#include "stage_worker/checkpoint/folders.h"

namespace stagecoach::client {

// What `checkpoint` verbs print: as documents and as text for people. Pure.
Json CheckpointListJson(
    const std::vector<checkpoint::FoundCheckpoint>& checkpoints);
// `sound` is what a sound one is called: nobody has looked at all bytes of one
// that is only listed.
std::string CheckpointListText(
    const std::vector<checkpoint::FoundCheckpoint>& checkpoints,
    const std::string& sound);

Json ExportJson(const checkpoint::Exported& exported,
                const std::string& folder);
std::string ExportText(const checkpoint::Exported& exported,
                       const std::string& folder);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_CHECKPOINT_OUTPUT_H_
