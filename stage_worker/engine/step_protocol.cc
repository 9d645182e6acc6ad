#include "stage_worker/engine/step_protocol.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::worker {

using schedule::Action;
using schedule::ActionKind;

StepProtocol::StepProtocol(Options options) : options_(std::move(options)) {}

StepProtocol::MicrobatchState StepProtocol::Before(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return MicrobatchState::kNew;
    case ActionKind::kBackwardWeight:
      return MicrobatchState::kInputDone;
    default:
      return MicrobatchState::kForwarded;
  }
}

StepProtocol::MicrobatchState StepProtocol::After(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return MicrobatchState::kForwarded;
    case ActionKind::kBackwardInput:
      return MicrobatchState::kInputDone;
    default:
      return MicrobatchState::kDone;
  }
}

const char* StepProtocol::Name(MicrobatchState state) {
  switch (state) {
    case MicrobatchState::kNew:
      return "not run";
    case MicrobatchState::kForwarded:
      return "run forward";
    case MicrobatchState::kInputDone:
      return "waiting for its weight gradient";
    case MicrobatchState::kDone:
      return "done";
  }
  return "unknown";
}

std::string StepProtocol::Place(StageIndex stage,
                                MicrobatchIndex microbatch) const {
  return absl::StrCat("stage ", stage.value(), ", step ", step_.value(),
                      ", microbatch ", microbatch.value());
}

StepProtocol::MicrobatchState StepProtocol::StateOf(const Key& key) const {
  const auto found = microbatches_.find(key);
  return found == microbatches_.end() ? MicrobatchState::kNew : found->second;
}

absl::Status StepProtocol::Begin(StepIndex step, int64_t target_tokens) {
  if (state_ == StepState::kRunning) {
    return absl::FailedPreconditionError(
        absl::StrCat("step ", step.value(), " cannot begin: step ",
                     step_.value(), " is neither finished nor dropped"));
  }
  if (step.value() < 0 || target_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", step.value(), " with ", target_tokens,
                     " target tokens cannot begin"));
  }
  state_ = StepState::kRunning;
  step_ = step;
  evaluating_ = false;
  microbatch_count_ = options_.microbatches;
  target_tokens_ = target_tokens;
  microbatches_.clear();
  return absl::OkStatus();
}

absl::Status StepProtocol::BeginEvaluation(StepIndex step,
                                           int64_t microbatches) {
  // Its losses are sums: nothing is divided by tokens.
  SC_RETURN_IF_ERROR(Begin(step, /*target_tokens=*/1));
  evaluating_ = true;
  microbatch_count_ = microbatches;
  return absl::OkStatus();
}

absl::StatusOr<const StageAssignment*> StepProtocol::Find(
    StageIndex stage) const {
  for (const StageAssignment& held : options_.stages) {
    if (held.stage == stage) return &held;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("this worker does not hold stage ", stage.value()));
}

absl::Status StepProtocol::CheckTensors(const Action& action,
                                        const StageAssignment& stage,
                                        size_t tensors) const {
  if (action.kind == ActionKind::kBackwardWeight) return absl::OkStatus();
  const bool forward = action.kind == ActionKind::kForward;
  const bool none = forward ? stage.first : stage.last;
  if (none == (tensors == 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Place(action.stage, action.microbatch), ": ",
      forward ? "the forward" : "the backward", " of this stage takes ",
      none ? "no " : "", forward ? "inputs" : "output gradients", ", but has ",
      tensors));
}

absl::Status StepProtocol::Check(const Action& action, size_t tensors) const {
  SC_ASSIGN_OR_RETURN(const StageAssignment* const stage, Find(action.stage));
  SC_RETURN_IF_ERROR(CheckRunning(schedule::ActionKindName(action.kind)));
  if (action.microbatch.value() < 0 ||
      action.microbatch.value() >= microbatch_count_) {
    return absl::InvalidArgumentError(
        absl::StrCat(Place(action.stage, action.microbatch), ": ",
                     evaluating_ ? "the evaluation" : "a step", " has ",
                     microbatch_count_, " microbatches"));
  }
  if (evaluating_ && action.kind != ActionKind::kForward) {
    return absl::FailedPreconditionError(
        absl::StrCat(Place(action.stage, action.microbatch),
                     ": an evaluation has no backward"));
  }
  const MicrobatchState state = StateOf({action.stage, action.microbatch});
  if (state != Before(action.kind)) {
    return absl::FailedPreconditionError(absl::StrCat(
        Place(action.stage, action.microbatch), ": ",
        schedule::ActionKindName(action.kind), " needs a microbatch that is ",
        Name(Before(action.kind)), ", but this one is ", Name(state)));
  }
  return CheckTensors(action, *stage, tensors);
}

void StepProtocol::Record(const Action& action) {
  microbatches_[{action.stage, action.microbatch}] = After(action.kind);
}

absl::Status StepProtocol::CheckRunning(absl::string_view call) const {
  if (state_ == StepState::kRunning) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(call, " outside a step: BeginStep comes first"));
}

absl::Status StepProtocol::Finish() {
  SC_RETURN_IF_ERROR(CheckRunning("FinishGradients"));
  for (const auto& [key, state] : microbatches_) {
    const bool complete = state == MicrobatchState::kDone ||
                          (evaluating_ && state == MicrobatchState::kForwarded);
    if (complete) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(Place(key.first, key.second),
                     ": the step cannot finish, this one is ", Name(state)));
  }
  state_ = evaluating_ ? StepState::kIdle : StepState::kFinished;
  return absl::OkStatus();
}

absl::Status StepProtocol::Update(StepIndex step) {
  if (state_ != StepState::kFinished || step != step_) {
    return absl::FailedPreconditionError(
        absl::StrCat("step ", step.value(),
                     " cannot be applied: no finished gradients of it are "
                     "here"));
  }
  state_ = StepState::kIdle;
  return absl::OkStatus();
}

void StepProtocol::Drop() {
  state_ = StepState::kIdle;
  microbatches_.clear();
}

}  // namespace stagecoach::worker
