#ifndef STAGECOACH_STAGE_WORKER_SESSION_STATE_H_
#define STAGECOACH_STAGE_WORKER_SESSION_STATE_H_

namespace stagecoach::worker {

// Life of a placement as the session sees it:
//
//   IDLE -> PROFILING -> PROFILED -> BUILDING (where the plan needs a profile)
//   IDLE -> BUILDING -> BUILT -> CONNECTING -> READY <-> STEPPING
//                                                |          |
//                                                |      PREPARED
//                                                |          |
//                                            FINISHING <- READY (committed)
//   READY -> BUILDING (another schedule, between two steps)
//   any but IDLE -> FAILED (reported, waits for Abort)
//   any but IDLE -> RELEASING -> IDLE
enum class SessionState {
  kIdle,
  kProfiling,
  kProfiled,
  kBuilding,
  kBuilt,
  kConnecting,
  kReady,
  kStepping,
  kPrepared,
  kFinishing,
  kFailed,
  kReleasing,
};
const char* SessionStateName(SessionState state);

// Which states may follow which; FAILED and RELEASING may follow any but IDLE.
bool MayFollow(SessionState from, SessionState to);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_SESSION_STATE_H_
