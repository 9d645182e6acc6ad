#ifndef STAGECOACH_CLIENT_DOCTOR_COMMAND_H_
#define STAGECOACH_CLIENT_DOCTOR_COMMAND_H_

#include "CLI/CLI.hpp"
#include "client/context.h"

namespace stagecoach::client {

// `doctor`: whether this machine can run a cluster, and what would help.
void AddDoctorCommand(CLI::App* app, Context* context);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_DOCTOR_COMMAND_H_
