#ifndef STAGECOACH_CLIENT_UP_COMMANDS_H_
#define STAGECOACH_CLIENT_UP_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "client/context.h"

namespace stagecoach::client {

// `up` and `down`.
void AddUpCommands(CLI::App* app, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_UP_COMMANDS_H_
