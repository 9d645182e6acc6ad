#ifndef STAGECOACH_CLIENT_GENERATE_COMMAND_H_
#define STAGECOACH_CLIENT_GENERATE_COMMAND_H_

#include "CLI/CLI.hpp"
#include "client/context.h"

namespace stagecoach::client {

// `stagecoach generate CHECKPOINT --prompt TEXT`: one worker process continues
// a text, without a cluster.
void AddGenerateCommand(CLI::App* app, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_GENERATE_COMMAND_H_
