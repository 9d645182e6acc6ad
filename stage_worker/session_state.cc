#include "stage_worker/session_state.h"

namespace stagecoach::worker {

const char* SessionStateName(SessionState state) {
  switch (state) {
    case SessionState::kIdle:
      return "IDLE";
    case SessionState::kProfiling:
      return "PROFILING";
    case SessionState::kProfiled:
      return "PROFILED";
    case SessionState::kBuilding:
      return "BUILDING";
    case SessionState::kBuilt:
      return "BUILT";
    case SessionState::kConnecting:
      return "CONNECTING";
    case SessionState::kReady:
      return "READY";
    case SessionState::kStepping:
      return "STEPPING";
    case SessionState::kPrepared:
      return "PREPARED";
    case SessionState::kFinishing:
      return "FINISHING";
    case SessionState::kFailed:
      return "FAILED";
    case SessionState::kReleasing:
      return "RELEASING";
  }
  return "?";
}

bool MayFollow(SessionState from, SessionState to) {
  switch (to) {
    case SessionState::kIdle:
      return from == SessionState::kReleasing ||
             from == SessionState::kFinishing;
    case SessionState::kProfiling:
      return from == SessionState::kIdle;
    case SessionState::kProfiled:
      return from == SessionState::kProfiling;
    case SessionState::kBuilding:
      return from == SessionState::kIdle || from == SessionState::kProfiled ||
             from == SessionState::kReady;
    case SessionState::kBuilt:
      return from == SessionState::kBuilding;
    case SessionState::kConnecting:
      return from == SessionState::kBuilt;
    case SessionState::kReady:
      return from == SessionState::kConnecting ||
             from == SessionState::kPrepared;
    case SessionState::kStepping:
      return from == SessionState::kReady;
    case SessionState::kPrepared:
      return from == SessionState::kStepping;
    case SessionState::kFinishing:
      return from == SessionState::kReady;
    case SessionState::kFailed:
    case SessionState::kReleasing:
      return from != SessionState::kIdle;
  }
  return false;
}

}  // namespace stagecoach::worker
