// Going on with a placement after a session, or the coordinator, has been away.
//
// Let c be the greatest number of outcomes that any worker knows, or that is
// recorded. Step c-1 was committed, since only a commit makes an outcome known.
// No worker lacks more than that one: it could not have prepared step c-1
// otherwise, and c-1 was committed only when all had. So whoever lacks it is
// PREPARED at c-1 and is told its outcome, and step c goes on.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/job_run.h"
#include "coordinator/step_outcome.h"

namespace stagecoach::coordinator {
namespace {

absl::Status CannotResume(const std::string& what) {
  return absl::InternalError(
      absl::StrCat("cannot go on with the placement: ", what,
                   "; are all workers of one build?"));
}

bool SameBits(double a, double b) {
  return absl::bit_cast<uint64_t>(a) == absl::bit_cast<uint64_t>(b);
}

bool SameOutcome(const v1::StepCommit& a, const v1::StepCommit& b) {
  return a.step() == b.step() && a.skip() == b.skip() &&
         SameBits(a.clip_factor(), b.clip_factor()) &&
         SameBits(a.learning_rate(), b.learning_rate());
}

bool HasAssigned(v1::PlacementState state) {
  return state >= v1::PLACEMENT_STATE_BUILT &&
         state <= v1::PLACEMENT_STATE_FINISHING;
}

// It works on a step, or has done so and waits for the outcome.
bool IsInStep(const v1::Resumed& resumed, int64_t step) {
  return resumed.committed_steps() == step &&
         (resumed.state() == v1::PLACEMENT_STATE_STEPPING ||
          resumed.state() == v1::PLACEMENT_STATE_PREPARED);
}

// Its failure is dealt with elsewhere.
bool CannotGoOn(v1::PlacementState state) {
  return state == v1::PLACEMENT_STATE_FAILED ||
         state == v1::PLACEMENT_STATE_RELEASING;
}

}  // namespace

void JobRun::TakeOver(const Recorded& recorded) {
  recorded_ = recorded;
  holding_.clear();
  for (size_t i = 0; i < members_.size(); ++i) {
    if (recorded.holding[i]) holding_.insert(static_cast<int>(i));
  }
  next_plan_ = recorded.next_plan;
  predicted_ = recorded.predicted;
  requested_checkpoint_step_ = recorded.requested_checkpoint_step;
  secured_step_ = std::max(first_step_, recorded.checkpoint_step);
  keep_states_ = recorded.keep_states;
  phase_ = recorded.releasing ? Phase::kReleasing : Phase::kResuming;
}

void JobRun::OnAway(int worker) {
  reports_[static_cast<size_t>(worker)] = Report();
  // The next report will contain them.
  deferred_.erase(std::remove_if(deferred_.begin(), deferred_.end(),
                                 [worker](const auto& entry) {
                                   return entry.first == worker;
                                 }),
                  deferred_.end());
}

absl::Status JobRun::OnKeptStep(int worker, const v1::KeptStep& kept) {
  reports_[static_cast<size_t>(worker)].kept[kept.prepared().step()] = kept;
  return absl::OkStatus();
}

absl::Status JobRun::OnResumed(int worker, const v1::Resumed& resumed,
                               absl::Time now, Output* output) {
  v1::Resumed& report =
      reports_[static_cast<size_t>(worker)].resumed.emplace(resumed);
  // A worker that began with a checkpoint counts only what it did itself.
  report.set_committed_steps(std::max(first_step_, resumed.committed_steps()));
  report.set_applied_steps(std::max(first_step_, resumed.applied_steps()));
  if (resumed.has_state_copied()) NoteCopied(worker, resumed.state_copied());
  if (phase_ != Phase::kResuming) {
    SC_RETURN_IF_ERROR(CatchUp(worker, output));
    return SealAgain(now, output);
  }
  const bool all =
      std::all_of(holding_.begin(), holding_.end(), [this](int member) {
        return reports_[static_cast<size_t>(member)].resumed.has_value();
      });
  return all ? ResumeTogether(now, output) : absl::OkStatus();
}

absl::Status JobRun::ResumeTogether(absl::Time now, Output* output) {
  step_start_ = now;
  if (NeedsSources()) {
    return CannotResume(
        absl::StrCat("nobody keeps a copy of step ", first_step_, " any more"));
  }
  if (recorded_.running) {
    Enter(Phase::kStepping);
    SC_RETURN_IF_ERROR(FindStep(output));
    if (phase_ == Phase::kStepping) FindPlan();
  } else if (planned_->plan.provisional) {
    Enter(Phase::kProfiling);
  } else {
    Enter(AllHaveAssigned() ? Phase::kConnecting : Phase::kAssigning);
  }
  // A copy: whoever has finished lets go.
  for (const int worker : std::set<int>(holding_)) {
    output->culprit = worker;
    SC_RETURN_IF_ERROR(CatchUp(worker, output));
  }
  return SealAgain(now, output);
}

bool JobRun::AllHaveAssigned() const {
  return holding_.size() == members_.size() &&
         std::all_of(holding_.begin(), holding_.end(), [this](int member) {
           const v1::Resumed& resumed =
               *reports_[static_cast<size_t>(member)].resumed;
           return HasAssigned(resumed.state()) &&
                  resumed.schedule_id() == planned_->schedule_id;
         });
}

// Whether the workers are changing over to the plan that waits, or have begun
// the step before they do.
void JobRun::FindPlan() {
  step_begun_ = !step_held_;
  if (next_plan_ == nullptr) return;
  bool changing = false;
  step_begun_ = false;
  for (const int worker : holding_) {
    const v1::Resumed& resumed = *reports_[static_cast<size_t>(worker)].resumed;
    changing |= resumed.schedule_id() == next_plan_->schedule_id;
    step_begun_ |= IsInStep(resumed, step_);
  }
  if (!changing) return;
  planned_ = std::exchange(next_plan_, nullptr);
  rescheduled_ = true;
  Enter(AllHaveAssigned() ? Phase::kConnecting : Phase::kAssigning);
}

absl::Status JobRun::FindStep(Output* output) {
  step_ = recorded_.steps;
  if (recorded_.last_step.has_value()) {
    last_commit_ = CommitMessage(*recorded_.last_step);
  }
  bool all_applied = true;
  int64_t committed = step_;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (recorded_.finished[i]) {
      applied_[i] = planned_->spec.training.steps;
    } else if (reports_[i].resumed.has_value()) {
      committed = std::max(committed, reports_[i].resumed->committed_steps());
      applied_[i] = reports_[i].resumed->applied_steps();
    }
  }
  while (step_ < committed) SC_RETURN_IF_ERROR(RecordAgain(step_, output));
  for (int64_t applied : applied_) all_applied &= applied == step_;
  FindCheckpoint();
  const bool stored = !checkpoint_.has_value() && !step_held_;
  if (step_ == planned_->spec.training.steps && all_applied && stored) {
    Enter(Phase::kFinishing);
    RestoreFinished();
  }
  return absl::OkStatus();
}

// Workers are told to write before they are told to begin the step, and a
// checkpoint that is complete, or has failed, is recorded at once.
void JobRun::FindCheckpoint() {
  int64_t told = 0;
  bool in_step = false;
  for (const Report& report : reports_) {
    if (!report.resumed.has_value()) continue;
    told = std::max(told, report.resumed->checkpoint_step());
    in_step |= IsInStep(*report.resumed, step_);
  }
  if (told > recorded_.checkpoint_step) {
    checkpoint_.emplace();
    checkpoint_->step = told;
  }
  const int64_t known = std::max(told, recorded_.checkpoint_step);
  if (known >= requested_checkpoint_step_) requested_checkpoint_step_ = 0;
  if (in_step || known >= step_ || step_ == first_step_ || !CheckpointDue()) {
    return;
  }
  step_held_ = checkpoint_.has_value();
  if (step_held_) return;
  checkpoint_.emplace();
  checkpoint_->step = step_;
}

absl::Status JobRun::RecordAgain(int64_t step, Output* output) {
  std::vector<v1::Prepared> prepared;
  for (size_t i = 0; i < members_.size(); ++i) {
    auto kept = reports_[i].kept.find(step);
    if (kept == reports_[i].kept.end()) {
      output->culprit = static_cast<int>(i);
      return CannotResume(absl::StrCat("step ", step,
                                       " was committed, and the worker has "
                                       "not kept what it prepared"));
    }
    prepared.push_back(kept->second.prepared());
  }
  const int64_t tokens = planned_->plan.target_tokens_per_step;
  SC_ASSIGN_OR_RETURN(
      const StepOutcome outcome,
      DecideStep(planned_->spec, step, tokens, prepared, &output->culprit));
  StepCommitted event = CommittedStep(step, outcome, outcome.compute_seconds);
  last_commit_ = CommitMessage(event.result);
  for (size_t i = 0; i < members_.size(); ++i) {
    const v1::KeptStep& kept = reports_[i].kept[step];
    if (kept.has_outcome() &&
        !SameOutcome(kept.outcome(), last_commit_->step_commit())) {
      output->culprit = static_cast<int>(i);
      return CannotResume(absl::StrCat("step ", step,
                                       " was committed there with another "
                                       "outcome than the workers' reports "
                                       "give"));
    }
  }
  loss_scale_.Record(event.result.skipped);
  output->events.push_back(std::move(event));
  ++step_;
  return absl::OkStatus();
}

void JobRun::RestoreFinished() {
  for (size_t i = 0; i < members_.size(); ++i) {
    if (!recorded_.finished[i]) continue;
    answered_.insert(static_cast<int>(i));
    for (const v1::ParameterDigest& parameter : recorded_.parameters[i]) {
      parameters_.emplace_back(parameter, static_cast<int>(i));
    }
    for (const MicrobatchLossSum& loss : recorded_.evaluation_losses[i]) {
      v1::MicrobatchLoss* entry = finished_[i].add_evaluation_losses();
      entry->set_microbatch(loss.microbatch);
      entry->set_loss_sum(loss.loss_sum);
    }
  }
}

absl::Status JobRun::CatchUp(int worker, Output* output) {
  // Taken out: it is told once.
  const Report report =
      std::exchange(reports_[static_cast<size_t>(worker)], Report());
  const v1::Resumed& resumed = *report.resumed;
  const v1::PlacementState state = resumed.state();
  const bool answered = answered_.count(worker) > 0;
  if (phase_ == Phase::kReleasing) {
    if (state != v1::PLACEMENT_STATE_NOTHING) {
      output->messages.emplace_back(worker, AbortMessage(""));
    } else if (holding_.count(worker) > 0) {
      const v1::WorkerMemory* memory = nullptr;
      if (resumed.released().has_memory())
        memory = &resumed.released().memory();
      if (resumed.finished().has_memory())
        memory = &resumed.finished().memory();
      LetGo(worker, memory, output);
    }
    return absl::OkStatus();
  }
  if (CannotGoOn(state)) return absl::OkStatus();
  CatchUpCheckpoint(worker, resumed);
  switch (phase_) {
    case Phase::kProfiling:
      if (state == v1::PLACEMENT_STATE_NOTHING) {
        output->messages.emplace_back(worker, ProfileFor(worker));
      } else if (state == v1::PLACEMENT_STATE_PROFILED && !answered) {
        return OnProfiled(worker, resumed.profiled());
      }
      return absl::OkStatus();
    case Phase::kAssigning:
      if (state == v1::PLACEMENT_STATE_NOTHING ||
          state == v1::PLACEMENT_STATE_PROFILED) {
        output->messages.emplace_back(worker, AssignFor(worker));
      } else if (resumed.schedule_id() != planned_->schedule_id) {
        output->messages.emplace_back(worker, RescheduleMessage());
      } else if (HasAssigned(state) && !answered) {
        return OnAssigned(worker, resumed.assigned());
      }
      return absl::OkStatus();
    case Phase::kConnecting:
      NoteAssigned(worker, resumed.assigned());
      if (state == v1::PLACEMENT_STATE_BUILT) {
        v1::CoordinatorMessage message;
        message.mutable_connect()->set_job_id(job_id_);
        output->messages.emplace_back(worker, std::move(message));
      } else if (state == v1::PLACEMENT_STATE_READY && !answered) {
        return OnConnected(worker, resumed.connected());
      }
      return absl::OkStatus();
    case Phase::kStepping:
      return CatchUpSteps(worker, report, output);
    case Phase::kFinishing:
      return CatchUpFinish(worker, resumed, output);
    case Phase::kResuming:
    case Phase::kReleasing:
      break;
  }
  return absl::OkStatus();
}

absl::Status JobRun::CatchUpSteps(int worker, const Report& report,
                                  Output* output) {
  const v1::Resumed& resumed = *report.resumed;
  const v1::PlacementState state = resumed.state();
  const int64_t committed = resumed.committed_steps();
  const bool lacks_outcome = state == v1::PLACEMENT_STATE_PREPARED &&
                             committed == step_ - 1 && last_commit_.has_value();
  const bool in_step =
      committed == step_ && (state == v1::PLACEMENT_STATE_READY ||
                             state == v1::PLACEMENT_STATE_STEPPING ||
                             state == v1::PLACEMENT_STATE_PREPARED);
  if (!lacks_outcome && !in_step) {
    return CannotResume(
        absl::StrCat("the worker is ", v1::PlacementState_Name(state),
                     " and knows the "
                     "outcomes of ",
                     committed, " steps, of which ", step_, " are committed"));
  }
  applied_[static_cast<size_t>(worker)] = resumed.applied_steps();
  if (lacks_outcome) output->messages.emplace_back(worker, *last_commit_);
  if (checkpoint_.has_value() && checkpoint_->step == step_ &&
      resumed.checkpoint_step() < step_) {
    output->messages.emplace_back(worker, WriteMessage());
  }
  if (step_ == planned_->spec.training.steps || !step_begun_) {
    return absl::OkStatus();
  }
  if (lacks_outcome || state == v1::PLACEMENT_STATE_READY) {
    output->messages.emplace_back(worker, StepBeginMessage());
    return absl::OkStatus();
  }
  if (state != v1::PLACEMENT_STATE_PREPARED || answered_.count(worker) > 0) {
    return absl::OkStatus();
  }
  auto kept = report.kept.find(step_);
  if (kept == report.kept.end()) {
    return CannotResume("the worker has not kept what it prepared");
  }
  return OnPrepared(worker, kept->second.prepared());
}

absl::Status JobRun::CatchUpFinish(int worker, const v1::Resumed& resumed,
                                   Output* output) {
  switch (resumed.state()) {
    case v1::PLACEMENT_STATE_READY:
      output->messages.emplace_back(worker, FinishMessage());
      return absl::OkStatus();
    case v1::PLACEMENT_STATE_FINISHING:
      return absl::OkStatus();
    default:
      if (resumed.has_finished()) {
        return OnFinished(worker, resumed.finished(), output);
      }
      return CannotResume("the worker let go without having finished");
  }
}

}  // namespace stagecoach::coordinator
