#ifndef STAGECOACH_CLIENT_PLAN_COMMAND_H_
#define STAGECOACH_CLIENT_PLAN_COMMAND_H_

#include "CLI/CLI.hpp"
#include "client/context.h"

namespace stagecoach::client {

// `stagecoach plan SPEC`. Needs no cluster.
void AddPlanCommand(CLI::App* app, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_PLAN_COMMAND_H_
