#ifndef STAGECOACH_CLIENT_SCHEDULE_FILE_H_
#define STAGECOACH_CLIENT_SCHEDULE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedule/schedule.h"
#include "schedule/simulator.h"
#include "schedule/verifier.h"

namespace stagecoach::client {

// A schedule in any of its forms; "-" is standard input. kInvalidArgument
// "file:line:column: ..." for what cannot be read.
absl::StatusOr<schedule::Schedule> LoadSchedule(const std::string& file);

// In one of the forms "text" (also ""), "json", "proto" and "csv" (PyTorch's:
// with communication if the schedule has it), ready to be written: text ends
// with a newline.
absl::StatusOr<std::string> InFormat(const schedule::Schedule& schedule,
                                     const std::string& format);

// `text`, with a newline at its end.
std::string WithNewline(std::string text);

// What is left without lowering.
schedule::Schedule ComputeOnly(schedule::Schedule schedule);

// Proves a schedule as what it says it is: a forward-only kind is complete
// without backwards, and one with any REDUCE_TIED must have all of them.
schedule::Verdict VerifySchedule(const schedule::Schedule& schedule);

// "F,B,W": one stage's forward, input gradient and weight gradient, in any
// unit. Empty: all equal.
absl::StatusOr<schedule::StageCosts> ParseCosts(absl::string_view text);

// kInvalidArgument if the file cannot be written whole.
absl::Status WriteFile(const std::string& file, absl::string_view contents);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_SCHEDULE_FILE_H_
