#ifndef STAGECOACH_CLIENT_RUN_COMMAND_H_
#define STAGECOACH_CLIENT_RUN_COMMAND_H_

#include "CLI/CLI.hpp"
#include "client/context.h"

namespace stagecoach::client {

// `stagecoach run SPEC [--local]`.
void AddRunCommand(CLI::App* app, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_RUN_COMMAND_H_
