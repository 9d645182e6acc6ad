#ifndef STAGECOACH_CLIENT_MEMORY_COMMANDS_H_
#define STAGECOACH_CLIENT_MEMORY_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "client/context.h"

namespace stagecoach::client {

// `stagecoach memory stats [JOB]`.
void AddMemoryCommands(CLI::App* app, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_MEMORY_COMMANDS_H_
