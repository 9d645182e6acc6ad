// The stagecoach command.

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <iostream>

#include "CLI/CLI.hpp"
#include "base/log.h"
#include "base/process.h"
#include "client/checkpoint_commands.h"
#include "client/cluster_commands.h"
#include "client/command_line.h"
#include "client/context.h"
#include "client/data_commands.h"
#include "client/doctor_command.h"
#include "client/generate_command.h"
#include "client/help_commands.h"
#include "client/job_commands.h"
#include "client/memory_commands.h"
#include "client/plan_command.h"
#include "client/run_command.h"
#include "client/schedule_commands.h"
#include "client/up_commands.h"
#include "client/verify_command.h"

namespace stagecoach::client {
namespace {

Context ProcessContext() {
  Context context;
  context.out = &std::cout;
  context.error = &std::cerr;
  context.error_is_terminal = isatty(STDERR_FILENO) == 1;
  winsize size = {};
  if (context.error_is_terminal &&
      ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    context.columns = size.ws_col;
  }
  return context;
}

// For programs that start this one: it dies with them.
void AddHiddenOptions(CLI::App* app) {
  app->add_option_function<int>("--die-with-parent",
                                [](int parent) { DieWithParent(parent); })
      ->group("");
}

int Main(int argc, char** argv) {
  Context context = ProcessContext();
  LogOptions log;
  log.level = LogLevel::kWarning;
  InitLog(log);
  CLI::App app(
      "Trains neural networks cut into pipeline stages, and accounts for every "
      "byte",
      "stagecoach");
  app.footer("See `stagecoach VERB --help`.");
  AddGlobalOptions(&app, &context);
  AddHiddenOptions(&app);
  AddRunCommand(&app, &context);
  AddPlanCommand(&app, &context);
  AddVerifyCommand(&app, &context);
  AddDataCommands(&app, &context);
  AddGenerateCommand(&app, &context);
  AddJobCommands(&app, &context);
  AddClusterCommands(&app, &context);
  AddMemoryCommands(&app, &context);
  AddScheduleCommands(&app, &context);
  AddUpCommands(&app, &context);
  AddDoctorCommand(&app, &context);
  AddHelpCommands(&app, &context);
  AddCheckpointCommands(&app, &context);
  return RunCommandLine(&app, argc, argv, &context);
}

}  // namespace
}  // namespace stagecoach::client

int main(int argc, char** argv) try {
  return stagecoach::client::Main(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "stagecoach: internal error: %s\n", error.what());
  return 1;
}
