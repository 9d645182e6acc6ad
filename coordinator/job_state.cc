#include "coordinator/job_state.h"

namespace stagecoach::coordinator {

const char* JobStateName(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "QUEUED";
    case JobState::kPlanning:
      return "PLANNING";
    case JobState::kPlacing:
      return "PLACING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kFailing:
      return "FAILING";
    case JobState::kCancelling:
      return "CANCELLING";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
    case JobState::kRecovering:
      return "RECOVERING";
  }
  return "?";
}

bool CanFollow(JobState from, JobState to) {
  switch (from) {
    case JobState::kQueued:
      return to == JobState::kPlanning || to == JobState::kPlacing ||
             to == JobState::kCancelled;
    case JobState::kPlanning:
      return to == JobState::kQueued || to == JobState::kFailed ||
             to == JobState::kCancelled;
    case JobState::kPlacing:
      return to == JobState::kRunning || to == JobState::kRecovering ||
             to == JobState::kFailing || to == JobState::kCancelling;
    case JobState::kRunning:
      return to == JobState::kSucceeded || to == JobState::kRecovering ||
             to == JobState::kFailing || to == JobState::kCancelling;
    case JobState::kRecovering:
      return to == JobState::kPlacing || to == JobState::kFailing ||
             to == JobState::kCancelling;
    case JobState::kFailing:
      return to == JobState::kFailed;
    case JobState::kCancelling:
      return to == JobState::kCancelled;
    case JobState::kSucceeded:
    case JobState::kFailed:
    case JobState::kCancelled:
      return false;
  }
  return false;
}

bool IsFinished(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

}  // namespace stagecoach::coordinator
