#ifndef STAGECOACH_CLIENT_SCHEDULE_COMMANDS_H_
#define STAGECOACH_CLIENT_SCHEDULE_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "client/context.h"

namespace stagecoach::client {

// `stagecoach schedule generate/verify/simulate/show`, on files, without a
// cluster.
void AddScheduleCommands(CLI::App* app, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_SCHEDULE_COMMANDS_H_
