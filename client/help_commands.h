#ifndef STAGECOACH_CLIENT_HELP_COMMANDS_H_
#define STAGECOACH_CLIENT_HELP_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "client/context.h"

namespace stagecoach::client {

// `completion` and `help`: what is made from the command line's own tree. They
// see the verbs that are there when they run.
void AddHelpCommands(CLI::App* app, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_HELP_COMMANDS_H_
