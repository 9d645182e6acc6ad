#ifndef STAGECOACH_STAGE_WORKER_SESSION_H_
#define STAGECOACH_STAGE_WORKER_SESSION_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "base/serial_executor.h"
#include "job/loss_scale.h"
#include "job/model_profile.h"
#include "stage_worker/checkpoint_writer.h"
#include "stage_worker/copies/neighbour_copies.h"
#include "stage_worker/copies/state_vault.h"
#include "stage_worker/job_logs.h"
#include "stage_worker/peer_address.h"
#include "stage_worker/peer_control.h"
#include "stage_worker/peer_directory.h"
#include "stage_worker/peer_service.h"
#include "stage_worker/placement.h"
#include "stage_worker/session_state.h"
#include "stagecoach/v1/session.pb.h"

namespace stagecoach::worker {

struct SessionOptions {
  std::string worker;
  Incarnation incarnation;
  v1::Register registration;
  PlacementParts parts;
  // Where this object's methods run, and where the engine's do. Both must
  // outlive the session; the engine's must be drained before it is destroyed.
  Executor* executor = nullptr;
  Executor* engine = nullptr;
  // Where checkpoints are written: may block. Must outlive the session and be
  // drained like the engine's.
  Executor* files = nullptr;
  // Where copies are sent to a neighbour: may block, likewise.
  Executor* copies = nullptr;
  // Of this process; with how copies reach peers. Must outlive the session.
  // Null: jobs with recovery.neighbour_copy are refused.
  StateVault* vault = nullptr;
  StateCarrier carrier;
  // Must outlive the session.
  PeerDirectory* directory = nullptr;
  // What is logged about jobs, to be sent along; null: nothing is.
  JobLogs* logs = nullptr;
  PeerControl* control = nullptr;
  // Sends to the coordinator; dropped while there is no stream. Thread-safe.
  std::function<void(v1::WorkerMessage)> send;
  // The coordinator took the registration and wants heartbeats this often.
  std::function<void(int64_t heartbeat_milliseconds)> on_welcome;
  // Asked to end the process.
  std::function<void(const std::string& reason)> on_shutdown;
};

// Counts of messages refused by their fence.
struct FenceCounters {
  int64_t old_term = 0;
  int64_t other_epoch = 0;
  int64_t other_incarnation = 0;
};

// What a worker says to its coordinator and does on its behalf. Owns the
// placement. Single-executor: every method runs on `executor`; the engine's
// part of the work is posted to `engine` and comes back.
class Session : public std::enable_shared_from_this<Session> {
 public:
  explicit Session(const SessionOptions& options);

  // A new stream is open: registers, with the placement that is held. Nothing
  // else is sent before Welcome.
  void OnConnected();
  void OnMessage(const v1::CoordinatorMessage& message);
  // The stream ended. The placement goes on and waits for the next stream,
  // unless the coordinator has ended this one with kAborted: then it is
  // dropped, and the next registration waits until it is gone.
  void OnDisconnected(const absl::Status& status);
  // Asks the coordinator to move the job away, and then, or if there is none,
  // calls on_shutdown.
  void Drain(const std::string& reason);
  bool draining() const { return draining_; }
  // Tells the coordinator that the process is about to end.
  void SendLeaving(const std::string& reason);
  // Tells the coordinator where the engine is, and what was logged.
  void SendHeartbeat();
  // Drops what there is; `done` runs afterwards on the engine's executor.
  void Stop(std::function<void()> done);

  SessionState state() const { return state_; }
  const FenceCounters& refused() const { return refused_; }

 private:
  // One placement and what belongs to it; engine tasks hold it too.
  struct Held {
    std::string job_id;
    Epoch epoch;
    std::shared_ptr<Placement> placement;  // null while building
    std::vector<PeerAddress> peers;
    int64_t steps = 0;        // of the whole job
    int64_t begun_step = -1;  // the last: none is begun twice
    std::shared_ptr<CheckpointWriter> checkpoints;
    // Of the last WriteCheckpoint.
    std::optional<job::LossScaleState> checkpoint_loss_scale;
    int64_t sealing_step = 0;                 // of the last SealCheckpoint
    std::shared_ptr<NeighbourCopies> copies;  // null: there is no neighbour
    bool copies_steps = false;  // what each step begins with; else when told
    // For a coordinator that comes back: what was answered, and it may not have
    // heard or recorded. Stays until the next placement.
    v1::Resumed answers;
    std::deque<v1::KeptStep> kept_steps;
  };

  bool PassesFence(const v1::CoordinatorMessage& message);

  // session_placing.cc
  // Holds the epoch, and measures if it is this worker's turn.
  void OnProfile(const v1::Profile& profile, Epoch epoch);
  void OnProfiled(Epoch epoch,
                  const absl::StatusOr<job::ModelProfile>& profile);
  void SendProfiled(const job::ModelProfile* profile);
  void OnAssign(const v1::Assign& assign, Epoch epoch);
  void OnBuilt(Epoch epoch, absl::StatusOr<std::shared_ptr<Placement>> built);
  void OnConnect();
  void OnReschedule(const v1::Reschedule& reschedule);
  absl::StatusOr<PlacementOptions> OptionsOf(const v1::Assign& assign,
                                             Epoch epoch);
  transport::ControlChannelFactory ControlChannels() const;
  absl::StatusOr<schedule::Schedule> ScheduleOf(const v1::Assign& assign);
  // Receiving ends are open: tells the coordinator, and peers that ask.
  void SendAssigned();

  // session_steps.cc
  void OnStepBegin(const v1::StepBegin& begin);
  void OnStepDone(Epoch epoch, absl::StatusOr<v1::Prepared> prepared);
  void OnStepCommit(const v1::StepCommit& commit);
  void OnFinish(const v1::Finish& finish);

  // session_checkpoint.cc
  void OnWriteCheckpoint(const v1::WriteCheckpoint& write);
  void OnSealCheckpoint(const v1::SealCheckpoint& seal);
  void SendWritten(Epoch epoch, int64_t step,
                   const CheckpointWriter::Files& files);
  void SendSealed(Epoch epoch, int64_t step,
                  const CheckpointWriter::Path& path);
  bool HoldsLivePlacement() const;
  // The placement ends: nothing is left of a checkpoint that is half-written.
  void DiscardCheckpoint();

  // session_copies.cc
  // Of the placement whose Assign this is.
  absl::Status PrepareCopies(const v1::Assign& assign,
                             PlacementOptions* placement);
  RestoreOptions RestoreOf(const v1::Assign& assign,
                           const PlacementOptions& placement) const;
  // On the engine: what the step begins with, for the neighbour.
  absl::Status CopyState(const std::shared_ptr<NeighbourCopies>& copies,
                         Epoch epoch, StepIndex step, Placement& placement);
  void OnCopyState(const v1::CopyState& copy);
  void OnCopied(Epoch epoch, int64_t step, const absl::Status& status);
  void CancelCopies();
  // Of `job_id`, unless it will be placed again.
  void DropCopies(const std::string& job_id);
  v1::KeptStates ListCopies() const;

  // session_memory.cc
  void OnMemoryQuery(const v1::MemoryQuery& query);
  v1::WorkerMessage MemoryReportFor(const v1::MemoryQuery& query) const;
  void SendHeld(Epoch epoch, const v1::MemoryQuery& query,
                const std::vector<HeldBytes>& held,
                std::chrono::nanoseconds took);

  // session_failure.cc
  // The coordinator wants the placement gone.
  void OnAbort(const std::string& reason);
  // The placement cannot go on; tells the coordinator and stops it.
  void Fail(const absl::Status& status);
  void SendReleased(const v1::WorkerMemory* memory);
  // Nothing is held any more.
  void BecomeIdle();

  // session_resume.cc
  void Register();
  void OnWelcome(const v1::Welcome& welcome);
  void Resume(const v1::Welcome& welcome);
  void KeepPrepared(const v1::Prepared& prepared);
  void KeepOutcome(const v1::StepCommit& commit);
  // Steps whose outcome is known here and recorded by the coordinator.
  void ForgetSteps(int64_t recorded_steps);

  void Transition(SessionState to);
  bool Expect(SessionState state, const char* message);
  // Whether the engine's answer still concerns the placement held now.
  bool IsCurrent(Epoch epoch) const;
  void Send(v1::WorkerMessage message);
  void OnLogAcknowledged(const v1::LogAcknowledged& acknowledged);
  void SendLog(JobLogs::Chunk chunk);
  void SendNextLog();
  // The rest of the job's log, before the message that lets go of the job.
  void SendRestOfLog();
  // A line of the job's log.
  void LogAboutJob(absl::string_view message) const;
  // Runs `work` on the engine with the placement, then `done` here.
  template <typename Result>
  void OnEngine(std::function<Result(Placement&)> work,
                std::function<void(Result)> done) {
    auto self = shared_from_this();
    options_.engine->Add([self, placement = held_.placement,
                          work = std::move(work), done = std::move(done)] {
      Result result = work(*placement);
      self->options_.executor->Add(
          [self, done, result = std::move(result)]() mutable {
            done(std::move(result));
          });
    });
  }

  const SessionOptions options_;
  SessionState state_ = SessionState::kIdle;
  Term term_;
  Epoch last_epoch_;
  Held held_;
  // The engine profiles, or works on held_.placement: Released waits for it.
  bool building_ = false;
  // Ends the profile that runs; each has its own.
  std::shared_ptr<std::atomic<bool>> profile_cancelled_ =
      std::make_shared<std::atomic<bool>>(false);
  // There is a stream, and nothing was said on it yet.
  bool registration_due_ = false;
  // The coordinator has answered on this stream.
  bool welcomed_ = false;
  // It does not want the placement.
  bool disowned_ = false;
  bool draining_ = false;
  FenceCounters refused_;
  int64_t heartbeats_ = 0;
  // The last schedule that came, by its id.
  std::string schedule_id_;
  schedule::Schedule schedule_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_SESSION_H_
