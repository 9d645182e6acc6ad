#ifndef STAGECOACH_CLIENT_EXIT_CODES_H_
#define STAGECOACH_CLIENT_EXIT_CODES_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach::client {

// How the command ends, for scripts. docs/cli.md lists them; they never change
// their meaning. The most specific one wins.
enum ExitCode : int {
  kExitDone = 0,
  kExitInternal = 1,
  kExitInvalid = 2,      // usage, spec or schedule
  kExitUnreachable = 3,  // no coordinator answers
  kExitNotAllowed = 4,
  kExitVersionSkew = 5,
  kExitConflict = 6,
  kExitJobFailed = 100,
  kExitNotFinished = 101,  // a wait timed out
  kExitNotFound = 102,
  kExitCancelled = 103,
  kExitOutOfMemory = 104,
  kExitWorkerLost = 105,
  kExitInterrupted = 130,  // the job goes on
};

struct ExitCodeMeaning {
  ExitCode exit_code;
  const char* meaning;
};
// All of them, in ascending order, in the words of docs/cli.md.
absl::Span<const ExitCodeMeaning> ExitCodeMeanings();

// The only place that turns a status into an exit code. A kFailedPrecondition
// whose message has "version skew" in it is kExitVersionSkew, any other one
// kExitConflict.
int ExitCodeOf(const absl::Status& status);

// Of a job that has ended: 0, 103, or by the kind of its cause.
// kExitNotFinished for one that has not.
int ExitCodeOf(const v1::Job& job);

// Whether nothing changes about a job in this state any more.
bool IsFinished(v1::JobState state);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_EXIT_CODES_H_
