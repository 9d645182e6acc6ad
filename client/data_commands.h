#ifndef STAGECOACH_CLIENT_DATA_COMMANDS_H_
#define STAGECOACH_CLIENT_DATA_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "client/context.h"

namespace stagecoach::client {

// `stagecoach data prepare`: from text to token files, without a cluster.
void AddDataCommands(CLI::App* app, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_DATA_COMMANDS_H_
