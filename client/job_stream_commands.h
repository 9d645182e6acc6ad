#ifndef STAGECOACH_CLIENT_JOB_STREAM_COMMANDS_H_
#define STAGECOACH_CLIENT_JOB_STREAM_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "client/context.h"

namespace stagecoach::client {

// `job logs` and `job events`, below the group `job`.
void AddJobStreamCommands(CLI::App* group, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_JOB_STREAM_COMMANDS_H_
