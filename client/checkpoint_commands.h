#ifndef STAGECOACH_CLIENT_CHECKPOINT_COMMANDS_H_
#define STAGECOACH_CLIENT_CHECKPOINT_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "client/context.h"

namespace stagecoach::client {

// `stagecoach checkpoint list | verify | export`: on folders, without a
// cluster.
void AddCheckpointCommands(CLI::App* app, Context* context);

// `stagecoach job checkpoint | resume`, below the group `job`.
void AddJobCheckpointVerbs(CLI::App* group, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_CHECKPOINT_COMMANDS_H_
