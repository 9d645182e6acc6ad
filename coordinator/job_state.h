#ifndef STAGECOACH_COORDINATOR_JOB_STATE_H_
#define STAGECOACH_COORDINATOR_JOB_STATE_H_

namespace stagecoach::coordinator {

// The life of a job as the coordinator sees it. What clients see is
// v1::JobState (publish.h converts).
//
//           ┌── planned ──┐
//           ▼             │
//   ──▶ QUEUED ──▶ PLANNING ──────────────▶ FAILED   (schedule refused)
//        │  │          │
//        │  │          └──────────────────▶ CANCELLED
//        │  └─────────────────────────────▶ CANCELLED
//        ▼
//     PLACING ──▶ RUNNING ────────────────▶ SUCCEEDED
//      ▲ │  │      │   │
//      │ └──┼──────┤   │
//      │    │      ▼   │
//     RECOVERING ◀─┘   │
//        │  │          │
//        │  └──────────┴─▶ FAILING ───────▶ FAILED     (from PLACING too)
//        └───────────────▶ CANCELLING ────▶ CANCELLED  (from PLACING and
//                                                       RUNNING too)
//
// QUEUED: waits to be planned, then for its workers. PLACING: workers build
// their stages and connect. RECOVERING: it lost a worker; the others let go,
// then it waits to be placed again. FAILING, CANCELLING: the outcome is
// decided, its workers are letting go.
enum class JobState {
  kQueued,
  kPlanning,
  kPlacing,
  kRunning,
  kFailing,
  kCancelling,
  kSucceeded,
  kFailed,
  kCancelled,
  // Last: snapshots hold the numbers.
  kRecovering,
};

inline constexpr JobState kAllJobStates[] = {
    JobState::kQueued,     JobState::kPlanning, JobState::kPlacing,
    JobState::kRunning,    JobState::kFailing,  JobState::kCancelling,
    JobState::kSucceeded,  JobState::kFailed,   JobState::kCancelled,
    JobState::kRecovering,
};

const char* JobStateName(JobState state);  // "QUEUED"
// Whether the diagram has an edge.
bool CanFollow(JobState from, JobState to);
// SUCCEEDED, FAILED or CANCELLED.
bool IsFinished(JobState state);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOB_STATE_H_
