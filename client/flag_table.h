#ifndef STAGECOACH_CLIENT_FLAG_TABLE_H_
#define STAGECOACH_CLIENT_FLAG_TABLE_H_

#include "CLI/CLI.hpp"
#include "client/context.h"
#include "client/verb_info.h"

namespace stagecoach::client {

// The command line as data, taken from the parser itself, so that completion
// and manual pages say what the parser does. Hidden options are left out. -o is
// of every verb that prints something, with that verb's formats; other options
// of the top are of the top alone. Pure.
VerbInfo DescribeCommand(const CLI::App& app, const Context& context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_FLAG_TABLE_H_
