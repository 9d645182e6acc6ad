#ifndef STAGECOACH_CLIENT_JOB_COMMANDS_H_
#define STAGECOACH_CLIENT_JOB_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "client/context.h"

namespace stagecoach::client {

// `stagecoach job submit/list/show/wait/cancel`.
void AddJobCommands(CLI::App* app, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_JOB_COMMANDS_H_
