#ifndef STAGECOACH_CLIENT_CLUSTER_COMMANDS_H_
#define STAGECOACH_CLIENT_CLUSTER_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "client/context.h"

namespace stagecoach::client {

// `stagecoach worker list` and `stagecoach version`.
void AddClusterCommands(CLI::App* app, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_CLUSTER_COMMANDS_H_
