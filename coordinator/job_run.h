#ifndef STAGECOACH_COORDINATOR_JOB_RUN_H_
#define STAGECOACH_COORDINATOR_JOB_RUN_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "coordinator/event.h"
#include "coordinator/planned_job.h"
#include "coordinator/step_outcome.h"
#include "job/loss_scale.h"
#include "job/memory_fit.h"
#include "job/memory_prediction.h"
#include "stagecoach/v1/session.pb.h"

namespace stagecoach::coordinator {

// A checkpoint that is being written.
struct PendingCheckpoint {
  int64_t step = 0;
  std::set<int> written;  // who has answered
  std::vector<v1::CheckpointFile> files;
  std::string error;  // the first
  int culprit = 0;    // whose it was
  // Told again by the sealer, who came back before all had.
  std::optional<v1::CheckpointSealed> sealed;
};

// One placement of one job, from Assign to the last worker that let go: what to
// say to the workers next, given their answers.
//
//                ┌────────── RESUMING ───────────────────┐
//       ┌────────┴───┬─────────────┬────────────┐        │
//       ▼            ▼             ▼            ▼        ▼
//   PROFILING ─▶ ASSIGNING ─▶ CONNECTING ─▶ STEPPING ─▶ FINISHING
//       │            │             │            │           │
//       └────────────┴─────────────┼────────────┴───────────┘
//                                  ▼
//                              RELEASING   (from RESUMING too)
//
// PROFILING only where the plan is provisional: one worker measures the model,
// and the caller plans again and calls Assign. STEPPING goes back to ASSIGNING
// for another schedule.
//
// RESUMING: taken over from an earlier life of the coordinator; which phase it
// is follows once every worker has said what it holds.
//
// Decides nothing about the health of workers and keeps no clock. Pure in that
// it only returns what should happen. Thread-compatible.
class JobRun {
 public:
  enum class Phase {
    kResuming,
    kProfiling,
    kAssigning,
    kConnecting,
    kStepping,
    kFinishing,
    kReleasing
  };

  struct Member {
    std::string name;
    Incarnation incarnation;
    std::string peer_address;
  };

  // What should happen: first the events, then the messages, in this order.
  // The caller fences the messages.
  struct Output {
    std::vector<EventBody> events;
    std::vector<std::pair<int, v1::CoordinatorMessage>> messages;
    // Then, if there is one: plan again with it.
    std::optional<v1::ModelProfile> profile;
    // The job cannot keep its memory.limit. Nothing more comes of it: the
    // caller ends it.
    std::optional<job::OverLimit> over_limit;
    // A worker drains, and nothing is lost if the job moves now.
    bool may_move = false;
    // kInternal if the answer made no sense: then `culprit` broke the protocol.
    absl::Status status;
    int culprit = 0;
  };

  JobRun(std::string job_id, Epoch epoch, v1::JobSpec spec,
         std::shared_ptr<const PlannedJob> planned,
         std::vector<Member> members);

  // What an earlier life of the coordinator has recorded of the placement.
  struct Recorded {
    bool running = false;    // else it was still being placed
    bool releasing = false;  // else its outcome is open
    // The one that waits for a step boundary.
    std::shared_ptr<const PlannedJob> next_plan;
    int64_t steps = 0;  // those before the first one included
    std::optional<StepRecord> last_step;
    int64_t checkpoint_step = 0;  // the last that was stored, or failed
    // By worker index, if it was predicted.
    std::vector<v1::MemoryInterval> predicted;
    bool keep_states = false;  // if releasing: the job is placed again
    int64_t requested_checkpoint_step = 0;  // see RestoreCheckpoints
    // By worker index: it holds stages; it has finished, and its parameters.
    std::vector<bool> holding;
    std::vector<bool> finished;
    std::vector<std::vector<v1::ParameterDigest>> parameters;
    std::vector<std::vector<MicrobatchLossSum>> evaluation_losses;
  };

  // Assign, or Profile, to every worker.
  Output Start();
  // Instead of Start. Nothing is said before the workers have.
  void TakeOver(const Recorded& recorded);
  // Assign to every worker, with the plan that the profile gave. Ignored unless
  // PROFILING: the job may have ended meanwhile.
  Output Assign(std::shared_ptr<const PlannedJob> planned);
  // From the next step boundary on the job runs this plan. Its stages must lie
  // where the present ones do. Of two, the later one counts; null: none. Not
  // while IsChangingPlan.
  void Reschedule(std::shared_ptr<const PlannedJob> planned) {
    next_plan_ = std::move(planned);
  }
  // The worker's session ended; it may come back and tell what it holds.
  void OnAway(int worker);
  // A worker is to end: at the next step boundary the state is copied, then the
  // caller moves the job. Idempotent. kFailedPrecondition outside the steps,
  // and for a job of one worker, which has nobody to copy to.
  absl::Status Drain();
  // An answer of a worker that passed its fence: Assigned, Connected, Prepared,
  // Applied, StateCopied, Finished, Released, KeptStep or Resumed. Answers that
  // cross an Abort are ignored.
  Output OnMessage(int worker, const v1::WorkerMessage& message,
                   absl::Time now);
  // A checkpoint at the next step boundary; returns the number of updates that
  // it will hold. kFailedPrecondition: no step is running, or the job has no
  // directory for checkpoints.
  absl::StatusOr<int64_t> RequestCheckpoint();
  // What earlier placements had of checkpoints, before Start: one that was
  // asked for, and the newest that is stored.
  void RestoreCheckpoints(int64_t requested_step, int64_t stored_step) {
    requested_checkpoint_step_ = requested_step;
    secured_step_ = std::min(secured_step_, stored_step);
  }
  // Taken over, it may have to say again with whose copies to begin, and does
  // not know.
  bool NeedsSources() const {
    return phase_ == Phase::kResuming && !recorded_.running &&
           first_step_ > 0 && resumed_from_.empty() &&
           planned_->sources.empty();
  }
  void SetSources(std::vector<v1::StateSource> sources);
  // What the job's first step began with, if with a checkpoint's, and the
  // recorded outcomes of its steps so far; before Start or TakeOver's first
  // message.
  void RestoreLossScale(const std::optional<v1::LossScaleState>& first,
                        const std::vector<StepRecord>& steps);
  // Abort to all who still hold something of the job. With `keep_states` it
  // will be placed again, and they keep their copies of its state.
  Output Release(const std::string& reason, bool keep_states);
  // The worker holds nothing any more: it let go or is dead.
  void OnGone(int worker) { holding_.erase(worker); }

  // Workers from whom the step that runs, or the last update, is still to come.
  std::vector<int> Owing() const;

  // The workers change over to another plan, or it is not known whether they
  // do.
  bool IsChangingPlan() const {
    return rescheduled_ || phase_ == Phase::kResuming;
  }

  // What the present plan's memory was predicted from; empty where it was not.
  // Refers to the plan.
  std::optional<job::MemoryQuestion> MemoryMeasured() const;
  // kInvalidArgument if this job, measured as it is, could not keep its
  // memory.limit under another plan.
  absl::Status CheckMemory(const PlannedJob& other) const;

  const std::string& job_id() const { return job_id_; }
  Epoch epoch() const { return epoch_; }
  Phase phase() const { return phase_; }
  const std::vector<Member>& members() const { return members_; }
  const PlannedJob& planned() const { return *planned_; }
  const std::shared_ptr<const PlannedJob>& shared_plan() const {
    return planned_;
  }
  const std::shared_ptr<const PlannedJob>& next_plan() const {
    return next_plan_;
  }
  const std::set<int>& holding() const { return holding_; }

 private:
  // What a worker has told at the beginning of a session.
  struct Report {
    std::map<int64_t, v1::KeptStep> kept;  // by step
    std::optional<v1::Resumed> resumed;    // the last of it
  };

  absl::Status OnProfiled(int worker, const v1::Profiled& profiled);
  absl::Status OnAssigned(int worker, const v1::Assigned& assigned);
  absl::Status OnConnected(int worker, const v1::Connected& connected);
  absl::Status OnPrepared(int worker, const v1::Prepared& prepared);
  absl::Status OnApplied(int worker, const v1::Applied& applied);
  void NoteCopied(int worker, const v1::StateCopied& copied);
  absl::Status OnFinished(int worker, const v1::Finished& finished,
                          Output* output);
  absl::Status OnReleased(int worker, const v1::Released& released,
                          Output* output);
  // The worker lets go, with its last figures.
  void LetGo(int worker, const v1::WorkerMemory* memory, Output* output);
  absl::Status HandleAnswer(int worker, const v1::WorkerMessage& message,
                            absl::Time now, Output* output);

  // job_run_checkpoint.cc. Answers about a checkpoint that is not under way are
  // ignored: they crossed the end of an earlier attempt.
  absl::Status OnCheckpointWritten(int worker,
                                   const v1::CheckpointWritten& written,
                                   Output* output);
  absl::Status OnCheckpointSealed(const v1::CheckpointSealed& sealed,
                                  absl::Time now, Output* output);
  bool CheckpointDue() const;
  // The step is prepared, and committing it would put more steps at stake than
  // was promised.
  bool CommitMustWait() const;
  void StartCheckpoint(Output* output);
  void NoteWritten(int worker, const v1::CheckpointWritten& written);
  // What a worker that came back says about the checkpoint under way.
  void CatchUpCheckpoint(int worker, const v1::Resumed& resumed);
  // Once all have written: asks the sealer, or takes the answer that it gave
  // before its session ended.
  void Seal(Output* output);
  absl::Status SealAgain(absl::Time now, Output* output);
  v1::CoordinatorMessage WriteMessage() const;

  // job_run_memory.cc. Before the first step of a plan: records what the
  // workers' memory will be, and whether that is too much.
  absl::Status PredictMemory(Output* output);
  absl::StatusOr<std::optional<job::MemoryQuestion>> QuestionOfMemory(
      int* culprit) const;
  void NoteAssigned(int worker, const v1::Assigned& assigned);

  // job_run_resume.cc
  absl::Status OnKeptStep(int worker, const v1::KeptStep& kept);
  absl::Status OnResumed(int worker, const v1::Resumed& resumed, absl::Time now,
                         Output* output);
  // Brings one worker to where the others are.
  absl::Status CatchUp(int worker, Output* output);
  absl::Status CatchUpSteps(int worker, const Report& report, Output* output);
  absl::Status CatchUpFinish(int worker, const v1::Resumed& resumed,
                             Output* output);
  // Once all have reported: finds the phase, then all catch up.
  absl::Status ResumeTogether(absl::Time now, Output* output);
  absl::Status FindStep(Output* output);
  // The checkpoint that was under way, or is due at this boundary.
  void FindCheckpoint();
  void FindPlan();
  bool AllHaveAssigned() const;
  // Records a step whose outcome only the workers know.
  absl::Status RecordAgain(int64_t step, Output* output);
  void RestoreFinished();

  // Marks that `worker` has answered; kInternal the second time or in another
  // phase.
  absl::Status Answer(int worker, Phase phase, const char* message);
  bool AllAnswered() const { return answered_.size() == members_.size(); }
  void Enter(Phase phase);

  // What follows once all have answered.
  absl::Status Advance(absl::Time now, Output* output);
  void EnterStep(int64_t step);
  // Not after the last step, nor while another plan waits.
  bool MayBeginStep() const;
  // Nothing if it may not.
  void BeginStep(absl::Time now, Output* output);
  // Tells the last step's outcome with it.
  void BeginStepWithOutcome(absl::Time now, Output* output);
  // What comes between two steps, and the next one.
  void PassBoundary(absl::Time now, Output* output);
  // The job is to move: all copy what they have now.
  void CopyStates(Output* output);
  bool AllCopied() const {
    return *std::min_element(copied_.begin(), copied_.end()) >= step_;
  }
  // Every worker has applied the last step, and another plan waits.
  void ChangePlan(Output* output);
  absl::Status EnterStepping(absl::Time now, Output* output);
  StepCommitted CommittedStep(int64_t step, const StepOutcome& outcome,
                              double seconds) const;
  v1::CoordinatorMessage ProfileFor(int worker) const;
  v1::CoordinatorMessage RescheduleMessage() const;
  v1::CoordinatorMessage StepBeginMessage() const;
  v1::CoordinatorMessage FinishMessage() const;
  v1::CoordinatorMessage CommitMessage(const StepRecord& result) const;
  absl::Status CommitStep(absl::Time now, Output* output);
  absl::Status Succeed(Output* output);
  void Broadcast(const v1::CoordinatorMessage& message, Output* output) const;
  v1::CoordinatorMessage AssignFor(int worker) const;
  v1::CoordinatorMessage AbortMessage(const std::string& reason) const;
  std::string TransportOfEdges() const;

  const std::string job_id_;
  const Epoch epoch_;
  const v1::JobSpec spec_;
  std::shared_ptr<const PlannedJob> planned_;
  const std::vector<Member> members_;
  const std::string resumed_from_;  // folder of a checkpoint, or empty

  Phase phase_ = Phase::kAssigning;
  std::optional<v1::ModelProfile> profile_;
  std::set<int> answered_;  // in this phase, or in this step
  std::set<int> holding_;
  std::vector<int64_t> receive_pool_bytes_;
  // Of a microbatch, as each worker measured it.
  std::vector<std::optional<v1::WorkerMemoryProfile>> memory_profiles_;
  std::vector<v1::MemoryInterval> predicted_;
  bool over_limit_ = false;
  std::vector<std::string> edges_;
  int64_t step_;               // updates committed; the step that runs
  bool step_begun_ = false;    // StepBegin of step_ was sent
  job::LossScale loss_scale_;  // of step_
  std::shared_ptr<const PlannedJob> next_plan_;
  bool rescheduled_ = false;  // edges are opened for another plan
  absl::Time step_start_;
  std::optional<v1::CoordinatorMessage> last_commit_;  // of step_ - 1
  std::vector<v1::Prepared> prepared_;  // of this step, by worker
  std::vector<int64_t> applied_;        // steps that each worker has applied
  std::vector<int64_t> copied_;  // newest state that its neighbour has, or -1
  bool keep_states_ = false;     // RELEASING
  bool draining_ = false;        // the job is to move
  bool copying_ = false;         // before it does
  // After the last step, by worker.
  std::vector<v1::Finished> finished_;
  std::optional<PendingCheckpoint> checkpoint_;  // under way: at most one
  int64_t requested_checkpoint_step_ = 0;        // 0: none
  // The next checkpoint is due, and so the next step waits for the one before.
  bool step_held_ = false;
  // What is lost at most goes back to here: the newest checkpoint that is
  // stored or has failed, or the beginning.
  int64_t secured_step_;
  // Of each parameter, and which worker reported it.
  std::vector<std::pair<v1::ParameterDigest, int>> parameters_;

  const int64_t first_step_;
  Recorded recorded_;
  std::vector<Report> reports_;  // by worker
  // What workers said after their report, while others had not reported yet.
  std::vector<std::pair<int, v1::WorkerMessage>> deferred_;
};

// SHA-256 over "name\0dtype\0shape\0sha256\n" of each parameter in the given
// order; shape as "2,3".
std::string HashOfParameters(
    const std::vector<v1::ParameterDigest>& parameters);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOB_RUN_H_
