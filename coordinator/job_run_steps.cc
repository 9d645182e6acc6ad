// Steps of a running placement: begin, commit, and what may stand between two.
#include <utility>

#include "base/status.h"
#include "coordinator/job_run.h"

namespace stagecoach::coordinator {

absl::Status JobRun::EnterStepping(absl::Time now, Output* output) {
  SC_RETURN_IF_ERROR(PredictMemory(output));
  if (over_limit_) return absl::OkStatus();
  Enter(Phase::kStepping);
  std::sort(edges_.begin(), edges_.end());
  if (rescheduled_) {
    rescheduled_ = false;
    JobRescheduled event;
    event.job_id = job_id_;
    event.schedule = planned_->plan.schedule.kind;
    event.schedule_id = planned_->schedule_id;
    event.requested = planned_->spec.pipeline.schedule;
    event.send_budget = planned_->spec.pipeline.send_budget;
    event.transport = TransportOfEdges();
    event.edges = edges_;
    event.receive_pool_bytes = receive_pool_bytes_;
    output->events.push_back(std::move(event));
  } else {
    JobRunning event;
    event.job_id = job_id_;
    event.transport = TransportOfEdges();
    event.edges = edges_;
    event.receive_pool_bytes = receive_pool_bytes_;
    output->events.push_back(std::move(event));
  }
  BeginStep(now, output);
  return absl::OkStatus();
}

void JobRun::ChangePlan(Output* output) {
  planned_ = std::exchange(next_plan_, nullptr);
  rescheduled_ = true;
  Enter(Phase::kAssigning);
  Broadcast(RescheduleMessage(), output);
}

v1::CoordinatorMessage JobRun::RescheduleMessage() const {
  v1::CoordinatorMessage message;
  v1::Reschedule* reschedule = message.mutable_reschedule();
  reschedule->set_job_id(job_id_);
  reschedule->set_schedule_id(planned_->schedule_id);
  *reschedule->mutable_schedule() = planned_->schedule;
  if (planned_->plan.evaluation.workers > 0) {
    *reschedule->mutable_evaluation() = planned_->evaluation;
  }
  return message;
}

void JobRun::EnterStep(int64_t step) {
  step_ = step;
  step_begun_ = false;
  answered_.clear();
}

bool JobRun::MayBeginStep() const {
  // The last steps' outcome must be everywhere before edges are closed.
  return next_plan_ == nullptr && step_ < planned_->spec.training.steps;
}

void JobRun::BeginStep(absl::Time now, Output* output) {
  step_begun_ = MayBeginStep();
  if (!step_begun_) return;
  step_start_ = now;
  Broadcast(StepBeginMessage(), output);
}

// Back to back: no worker waits for another's update.
void JobRun::BeginStepWithOutcome(absl::Time now, Output* output) {
  step_begun_ = true;
  step_start_ = now;
  v1::CoordinatorMessage message = StepBeginMessage();
  *message.mutable_step_begin()->mutable_outcome() =
      last_commit_->step_commit();
  Broadcast(message, output);
}

v1::CoordinatorMessage JobRun::StepBeginMessage() const {
  v1::CoordinatorMessage message;
  v1::StepBegin* begin = message.mutable_step_begin();
  begin->set_job_id(job_id_);
  begin->set_step(step_);
  begin->set_schedule_id(planned_->schedule_id);
  begin->set_target_tokens(planned_->plan.target_tokens_per_step);
  begin->set_evaluate(EvaluationIsDue(planned_->spec, step_));
  begin->set_loss_scale(loss_scale_.value());
  return message;
}

v1::CoordinatorMessage JobRun::FinishMessage() const {
  v1::CoordinatorMessage message;
  message.mutable_finish()->set_job_id(job_id_);
  message.mutable_finish()->set_evaluate(
      EvaluationIsDue(planned_->spec, step_));
  return message;
}

// From what is recorded of the step, so that it can be said again by a later
// life of the coordinator with the same bits.
v1::CoordinatorMessage JobRun::CommitMessage(const StepRecord& result) const {
  v1::CoordinatorMessage message;
  v1::StepCommit* commit = message.mutable_step_commit();
  commit->set_job_id(job_id_);
  commit->set_step(result.step);
  commit->set_skip(result.skipped);
  commit->set_clip_factor(
      ClipFactorOf(planned_->spec.training, result.skipped, result.grad_norm));
  commit->set_learning_rate(result.learning_rate);
  return message;
}

StepCommitted JobRun::CommittedStep(int64_t step, const StepOutcome& outcome,
                                    double seconds) const {
  StepCommitted event;
  event.job_id = job_id_;
  event.busy_nanoseconds = outcome.busy_nanoseconds;
  StepRecord& result = event.result;
  result.step = step;
  result.loss = outcome.loss;
  result.grad_norm = outcome.grad_norm;
  result.learning_rate = outcome.learning_rate;
  result.seconds = seconds;
  result.evaluation_loss = outcome.evaluation_loss;
  result.compute_seconds = outcome.compute_seconds;
  const auto tokens =
      static_cast<double>(planned_->plan.target_tokens_per_step);
  result.tokens_per_second = seconds > 0 ? tokens / seconds : 0;
  result.skipped = outcome.skip;
  return event;
}

absl::Status JobRun::CommitStep(absl::Time now, Output* output) {
  const int64_t tokens = planned_->plan.target_tokens_per_step;
  SC_ASSIGN_OR_RETURN(
      const StepOutcome outcome,
      DecideStep(planned_->spec, step_, tokens, prepared_, &output->culprit));
  // Of the step alone.
  const double seconds =
      std::max(0.0, absl::ToDoubleSeconds(now - step_start_) -
                        outcome.evaluation_seconds);
  StepCommitted event = CommittedStep(step_, outcome, seconds);
  last_commit_ = CommitMessage(event.result);
  loss_scale_.Record(event.result.skipped);
  output->events.push_back(std::move(event));
  EnterStep(step_ + 1);
  if (MayBeginStep() && !draining_ && !CheckpointDue()) {
    BeginStepWithOutcome(now, output);
  } else {
    Broadcast(*last_commit_, output);
    PassBoundary(now, output);
  }
  return absl::OkStatus();
}

void JobRun::PassBoundary(absl::Time now, Output* output) {
  if (draining_ && step_ < planned_->spec.training.steps) {
    return CopyStates(output);
  }
  if (CheckpointDue()) {
    step_held_ = checkpoint_.has_value();
    if (step_held_) return;
    StartCheckpoint(output);
  }
  BeginStep(now, output);
}

}  // namespace stagecoach::coordinator
