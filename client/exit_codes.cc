#include "client/exit_codes.h"

#include "absl/strings/match.h"

namespace stagecoach::client {
namespace {

struct CodeOfStatus {
  absl::StatusCode status;
  ExitCode exit_code;
};

// What is not here is kExitInternal.
constexpr CodeOfStatus kTable[] = {
    {absl::StatusCode::kOk, kExitDone},
    {absl::StatusCode::kInvalidArgument, kExitInvalid},
    {absl::StatusCode::kOutOfRange, kExitInvalid},
    {absl::StatusCode::kUnavailable, kExitUnreachable},
    {absl::StatusCode::kPermissionDenied, kExitNotAllowed},
    {absl::StatusCode::kUnauthenticated, kExitNotAllowed},
    // The coordinator does not have this method: it is of another version.
    {absl::StatusCode::kUnimplemented, kExitVersionSkew},
    {absl::StatusCode::kAlreadyExists, kExitConflict},
    {absl::StatusCode::kAborted, kExitConflict},
    {absl::StatusCode::kFailedPrecondition, kExitConflict},
    {absl::StatusCode::kDeadlineExceeded, kExitNotFinished},
    {absl::StatusCode::kNotFound, kExitNotFound},
    {absl::StatusCode::kCancelled, kExitInterrupted},
};

constexpr ExitCodeMeaning kMeanings[] = {
    {kExitDone, "done"},
    {kExitInternal,
     "internal error; `verify`: unequal; `schedule diff`: different; `doctor`: "
     "a check failed; `checkpoint verify`: damaged"},
    {kExitInvalid, "usage, spec or schedule invalid (`file:line:column`)"},
    {kExitUnreachable, "coordinator unreachable"},
    {kExitNotAllowed, "not allowed"},
    {kExitVersionSkew, "version skew"},
    {kExitConflict,
     "conflict (a port that is taken, a name in use, a cluster that is up)"},
    {kExitJobFailed, "job failed"},
    {kExitNotFinished, "not finished (a wait timed out)"},
    {kExitNotFound, "not found"},
    {kExitCancelled, "cancelled"},
    {kExitOutOfMemory, "out of memory"},
    {kExitWorkerLost, "worker lost beyond recovery"},
    {kExitInterrupted, "interrupted; the job goes on"},
};

}  // namespace

absl::Span<const ExitCodeMeaning> ExitCodeMeanings() { return kMeanings; }

int ExitCodeOf(const absl::Status& status) {
  if (status.code() == absl::StatusCode::kFailedPrecondition &&
      absl::StrContains(status.message(), "version skew")) {
    return kExitVersionSkew;
  }
  for (const CodeOfStatus& entry : kTable) {
    if (entry.status == status.code()) return entry.exit_code;
  }
  return kExitInternal;
}

int ExitCodeOf(const v1::Job& job) {
  if (job.state() == v1::JOB_STATE_SUCCEEDED) return kExitDone;
  if (job.state() == v1::JOB_STATE_CANCELLED) return kExitCancelled;
  if (job.state() != v1::JOB_STATE_FAILED) return kExitNotFinished;
  switch (job.cause().kind()) {
    case v1::FAILURE_KIND_INVALID:
      return kExitInvalid;
    case v1::FAILURE_KIND_WORKER_LOST:
      return kExitWorkerLost;
    case v1::FAILURE_KIND_OUT_OF_MEMORY:
      return kExitOutOfMemory;
    default:
      return kExitJobFailed;
  }
}

bool IsFinished(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

}  // namespace stagecoach::client
