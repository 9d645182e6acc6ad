// Steps of a placement, and its regular end.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/bytes.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/status.h"
#include "stage_worker/memory_report.h"
#include "stage_worker/session.h"
#include "stage_worker/session_fields.h"
#include "stage_worker/session_proto.h"

namespace stagecoach::worker {

void Session::OnStepBegin(const v1::StepBegin& begin) {
  if (begin.has_outcome()) OnStepCommit(begin.outcome());
  ForgetSteps(begin.recorded_steps());
  if (!Expect(SessionState::kReady, "StepBegin")) return;
  if (begin.step() <= held_.begun_step) {
    LogWarning(absl::StrCat("StepBegin of step ", begin.step(),
                            " ignored: ", held_.begun_step, " has begun"));
    return;
  }
  held_.begun_step = begin.step();
  Transition(SessionState::kStepping);
  OnEngine<absl::StatusOr<v1::Prepared>>(
      [this, copies = held_.copies_steps ? held_.copies : nullptr,
       epoch = held_.epoch,
       begin](Placement& placement) -> absl::StatusOr<v1::Prepared> {
        const StepIndex step(begin.step());
        SC_RETURN_IF_ERROR(CopyState(copies, epoch, step, placement));
        v1::Prepared prepared;
        prepared.set_job_id(begin.job_id());
        prepared.set_step(step.value());
        if (begin.evaluate()) {
          SC_ASSIGN_OR_RETURN(const Placement::Evaluation evaluation,
                              placement.Evaluate(step));
          ToProto(evaluation.losses, prepared.mutable_evaluation_losses());
          prepared.set_evaluation_nanoseconds(evaluation.nanoseconds);
        }
        SC_ASSIGN_OR_RETURN(
            const Placement::StepOutcome outcome,
            placement.RunStep(step, begin.target_tokens(),
                              begin.loss_scale() > 0 ? begin.loss_scale() : 1));
        ToProto(outcome, &prepared);
        return prepared;
      },
      [this, epoch = held_.epoch](absl::StatusOr<v1::Prepared> prepared) {
        OnStepDone(epoch, std::move(prepared));
      });
}

void Session::OnStepDone(Epoch epoch, absl::StatusOr<v1::Prepared> prepared) {
  if (!IsCurrent(epoch) || state_ != SessionState::kStepping) return;
  if (!prepared.ok()) return Fail(prepared.status());
  Transition(SessionState::kPrepared);
  v1::WorkerMessage message;
  LogFields fields = FieldsOf(held_.job_id, held_.epoch);
  fields.step = prepared->step();
  LogDebug(absl::StrCat("prepared; busy for ",
                        absl::FormatDuration(
                            absl::Nanoseconds(prepared->busy_nanoseconds()))),
           fields);
  *message.mutable_prepared() = *std::move(prepared);
  KeepPrepared(message.prepared());
  SC_FAILPOINT("worker.prepared");
  Send(std::move(message));
}

void Session::OnStepCommit(const v1::StepCommit& commit) {
  if (!Expect(SessionState::kPrepared, "StepCommit")) return;
  if (commit.step() != held_.begun_step) {
    LogWarning(absl::StrCat("StepCommit of step ", commit.step(),
                            " ignored: ", held_.begun_step, " is prepared"));
    return;
  }
  SC_FAILPOINT("worker.commit");
  KeepOutcome(commit);
  // What this step began with is everywhere.
  if (held_.copies != nullptr) {
    options_.vault->DropBefore(commit.step() + (held_.copies_steps ? 0 : 1));
  }
  // Ready at once: the engine works in order, so the next step may be queued
  // behind the update.
  Transition(SessionState::kReady);
  UpdateOptions update;
  update.step = StepIndex(commit.step());
  update.clip_factor = commit.clip_factor();
  update.learning_rate = commit.learning_rate();
  OnEngine<absl::Status>(
      [update, skip = commit.skip()](Placement& placement) {
        return placement.Apply(update, skip);
      },
      [this, epoch = held_.epoch,
       step = commit.step()](const absl::Status& status) {
        if (!IsCurrent(epoch) || state_ == SessionState::kFailed) return;
        if (!status.ok()) return Fail(status);
        held_.answers.set_applied_steps(step + 1);
        SC_FAILPOINT("worker.applied");
        if (held_.begun_step > step) return;
        v1::WorkerMessage message;
        message.mutable_applied()->set_job_id(held_.job_id);
        message.mutable_applied()->set_step(step);
        Send(std::move(message));
      });
}

void Session::OnFinish(const v1::Finish& finish) {
  if (!Expect(SessionState::kReady, "Finish")) return;
  Transition(SessionState::kFinishing);
  OnEngine<absl::StatusOr<v1::Finished>>(
      [finish, steps = held_.steps](
          Placement& placement) -> absl::StatusOr<v1::Finished> {
        v1::Finished finished;
        finished.set_job_id(finish.job_id());
        if (finish.evaluate()) {
          SC_ASSIGN_OR_RETURN(const Placement::Evaluation evaluation,
                              placement.Evaluate(StepIndex(steps)));
          ToProto(evaluation.losses, finished.mutable_evaluation_losses());
        }
        SC_ASSIGN_OR_RETURN(const std::vector<ParameterDigest> digests,
                            placement.DigestParameters());
        for (const ParameterDigest& digest : digests) {
          ToProto(digest, finished.add_parameters());
        }
        placement.Stop();
        return finished;
      },
      [this, epoch = held_.epoch](absl::StatusOr<v1::Finished> ended) {
        if (!IsCurrent(epoch) || state_ != SessionState::kFinishing) return;
        if (!ended.ok()) return Fail(ended.status());
        v1::WorkerMessage message;
        v1::Finished* finished = message.mutable_finished();
        *finished = *std::move(ended);
        ToProto(options_.worker, held_.placement->Memory(),
                finished->mutable_memory());
        options_.directory->Withdraw();
        *held_.answers.mutable_finished() = *finished;
        LogAboutJob(absl::StrCat(
            "finished; at most ",
            FormatByteSize(finished->memory().allocated_bytes().peak()),
            " were allocated"));
        SendRestOfLog();
        CancelCopies();
        DropCopies(held_.job_id);
        Send(std::move(message));
        // The engine may still drop its own reference: let it be the last.
        options_.engine->Add([placement = held_.placement] {});
        held_.placement.reset();
        BecomeIdle();
      });
}

}  // namespace stagecoach::worker
