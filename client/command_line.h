#ifndef STAGECOACH_CLIENT_COMMAND_LINE_H_
#define STAGECOACH_CLIENT_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/context.h"

namespace stagecoach::client {

// Adds the options of all verbs (`-o`, `--endpoint`) to the top of the command.
void AddGlobalOptions(CLI::App* app, Context* context);

// A verb below `parent`. `examples` are lines for the end of its help.
CLI::App* AddVerb(CLI::App* parent, const std::string& name,
                  const std::string& description,
                  const std::vector<std::string>& examples);

// A word that has verbs below it, such as `job`.
CLI::App* AddGroup(CLI::App* parent, const std::string& name,
                   const std::string& description);

// Makes `run` the context's action when the verb is on the command line.
// Another format than `formats` is refused; one of `planned` as "not supported
// yet".
void SetAction(CLI::App* verb, Context* context,
               std::function<absl::StatusOr<int>()> run,
               const std::vector<std::string>& formats = {"table", "json"},
               const std::vector<std::string>& planned = {});

// Parses and runs the verb; the process's exit code. An error is a message on
// stderr and, with `-o json`, a document on stdout as well.
int RunCommandLine(CLI::App* app, int argc, const char* const* argv,
                   Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_COMMAND_LINE_H_
