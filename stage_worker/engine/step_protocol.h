#ifndef STAGECOACH_STAGE_WORKER_ENGINE_STEP_PROTOCOL_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_STEP_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "schedule/action.h"
#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::worker {

// Says which call of a StageEngine is legal now. Every engine asks it, so that
// all of them refuse the same calls with the same words.
//
//   step:        IDLE --Begin--> RUNNING --Finish--> FINISHED --Update--> IDLE
//                Begin from FINISHED is legal too: the update was skipped.
//                Drop leads to IDLE from everywhere.
//   microbatch:  (new) --F--> FORWARDED --B--> DONE
//                                  \--I--> INPUT_DONE --W--> DONE
//
// kFailedPrecondition: the call is not legal now. kInvalidArgument: this worker
// has no such stage, the step no such microbatch, or the number of tensors
// cannot be right. Single-executor.
class StepProtocol {
 public:
  struct Options {
    std::vector<StageAssignment> stages;
    int64_t microbatches = 0;
  };
  explicit StepProtocol(Options options);

  absl::Status Begin(StepIndex step, int64_t target_tokens);
  // Forwards alone, before `step`: another IDLE --> RUNNING, from which Finish
  // leads to IDLE again.
  absl::Status BeginEvaluation(StepIndex step, int64_t microbatches);
  // Whether the compute action may run with this number of tensors (inputs of
  // F; output gradients of B and I).
  absl::Status Check(const schedule::Action& action, size_t tensors) const;
  // It has run.
  void Record(const schedule::Action& action);
  // Whether the tied gradients, complete or not, may be read and changed.
  absl::Status CheckRunning(absl::string_view call) const;
  absl::Status Finish();
  absl::Status Update(StepIndex step);
  void Drop();

  StepIndex step() const { return step_; }
  bool evaluating() const { return evaluating_; }
  int64_t target_tokens() const { return target_tokens_; }
  // kInvalidArgument if this worker does not hold the stage.
  absl::StatusOr<const StageAssignment*> Find(StageIndex stage) const;
  // "stage 2, step 37, microbatch 5", for messages.
  std::string Place(StageIndex stage, MicrobatchIndex microbatch) const;

 private:
  enum class StepState { kIdle, kRunning, kFinished };
  enum class MicrobatchState { kNew, kForwarded, kInputDone, kDone };
  using Key = std::pair<StageIndex, MicrobatchIndex>;

  static MicrobatchState Before(schedule::ActionKind kind);
  static MicrobatchState After(schedule::ActionKind kind);
  static const char* Name(MicrobatchState state);
  absl::Status CheckTensors(const schedule::Action& action,
                            const StageAssignment& stage, size_t tensors) const;
  MicrobatchState StateOf(const Key& key) const;

  const Options options_;
  StepState state_ = StepState::kIdle;
  StepIndex step_;
  bool evaluating_ = false;
  int64_t microbatch_count_ = 0;  // of the step or the evaluation
  int64_t target_tokens_ = 0;
  std::map<Key, MicrobatchState> microbatches_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_STEP_PROTOCOL_H_
