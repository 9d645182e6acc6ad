#ifndef STAGECOACH_CLIENT_VERIFY_COMMAND_H_
#define STAGECOACH_CLIENT_VERIFY_COMMAND_H_

#include "CLI/CLI.hpp"
#include "client/context.h"
#include "job/job_spec.h"

namespace stagecoach::client {

// `stagecoach verify SPEC`: the job against a single process, bit by bit.
void AddVerifyCommand(CLI::App* app, Context* context);

// The same training in one process: one worker, one stage, gpipe.
job::JobSpec SingleProcessSpec(const job::JobSpec& spec);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_VERIFY_COMMAND_H_
