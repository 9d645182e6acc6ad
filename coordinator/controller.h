#ifndef STAGECOACH_COORDINATOR_CONTROLLER_H_
#define STAGECOACH_COORDINATOR_CONTROLLER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/serial_executor.h"
#include "coordinator/cluster_state.h"
#include "coordinator/controller_options.h"
#include "coordinator/controller_records.h"
#include "coordinator/failure.h"
#include "coordinator/job_logs.h"
#include "coordinator/job_reader.h"
#include "coordinator/job_run.h"
#include "coordinator/job_watches.h"
#include "coordinator/journal.h"
#include "coordinator/kept_states.h"
#include "coordinator/links.h"
#include "coordinator/memory_questions.h"
#include "coordinator/natural_order.h"
#include "coordinator/planned_job.h"
#include "coordinator/restored_plans.h"
#include "job/memory_fit.h"
#include "stagecoach/v1/cluster.pb.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/memory.pb.h"
#include "stagecoach/v1/session.pb.h"

namespace stagecoach::coordinator {

// The coordinator's decisions: which worker is alive, which job runs where,
// what each is told. Everything happens on one serial executor, which owns all
// state: methods only post to it, so they may be called from any thread, never
// block, and take effect in the order of their calls. Replies run on the
// executor and must not block. Plans are made on a second executor.
//
// What it decides is in the journal before it takes effect. A request that the
// journal refuses is refused; a change that nobody asked for and the journal
// refuses stops the controller, and the next life goes on from the journal.
// What can be found out again (outcomes of steps, who is silent) is written a
// little later.
//
// The real process calls Tick every 100 ms; tests when they want to. The
// controller must outlive both executors' last task; clock and journal must
// outlive the controller.
class Controller {
 public:
  Controller(ControllerOptions options, Clock* clock, Executor* executor,
             Executor* planning, Journal* journal);

  // Goes on from the state of an earlier life. Before anything else is called,
  // and on its thread; plans the jobs that are placed again, which may take a
  // while. An error: the journal refused it.
  absl::Status TakeOver(ClusterState state);

  // ---- sessions of workers ----
  void OnConnected(std::shared_ptr<WorkerLink> link);
  void OnMessage(std::shared_ptr<WorkerLink> link, v1::WorkerMessage message);
  void OnDisconnected(std::shared_ptr<WorkerLink> link);
  // Looks at the clock: silence, deadlines.
  void Tick();
  // Ends every session and watch with `status` and answers all requests with
  // it, those to come too. Jobs and workers are left as they are.
  void Stop(const absl::Status& status);

  // ---- requests of clients; errors as proto/stagecoach/v1 says ----
  void Submit(v1::SubmitJobRequest request, Reply<v1::SubmitJobResponse> reply);
  void Cancel(v1::CancelJobRequest request, Reply<v1::CancelJobResponse> reply);
  void Reschedule(v1::RescheduleJobRequest request,
                  Reply<v1::RescheduleJobResponse> reply);
  // Asks for a checkpoint at the next step boundary.
  void Checkpoint(v1::CheckpointJobRequest request,
                  Reply<v1::CheckpointJobResponse> reply);
  // With the newest 20,000 steps; WatchJob gives all.
  void GetJob(v1::GetJobRequest request, Reply<v1::Job> reply);
  // The newest 1,000, in the order of submission.
  void ListJobs(v1::ListJobsRequest request, Reply<v1::ListJobsResponse> reply);
  void ListWorkers(v1::ListWorkersRequest request,
                   Reply<v1::ListWorkersResponse> reply);
  void GetCoordinator(v1::GetCoordinatorRequest request,
                      Reply<v1::GetCoordinatorResponse> reply);
  void AskMemory(MemoryQueryKind kind, v1::GetMemoryStatsRequest request,
                 Reply<v1::GetMemoryStatsResponse> reply);
  void WatchMemory(v1::WatchMemoryStatsRequest request,
                   std::shared_ptr<MemoryWatcher> watcher);
  void UnwatchMemory(std::shared_ptr<MemoryWatcher> watcher);
  void Watch(v1::WatchJobRequest request, std::shared_ptr<JobWatcher> watcher);
  void Unwatch(std::shared_ptr<JobWatcher> watcher);
  // Lets `reader` read the job's events or logs until it has ended or is told
  // to stop.
  void Read(const v1::ClientVersion& version, const std::string& job_id,
            std::shared_ptr<JobReader> reader);
  // What the reader had under way has been sent.
  void ReadOn(std::shared_ptr<JobReader> reader);
  void StopReading(std::shared_ptr<JobReader> reader);

  // ---- on the executor, or while it rests ----
  const ClusterState& state() const { return state_; }
  const FenceCounters& refused() const { return refused_; }

 private:
  using Session = WorkerSession;
  using Away = AwayWorker;
  using Run = PlacementRun;
  using Recovery = PendingRecovery;

  // controller.cc
  enum class Hurry { kNow, kByTheNextTick };
  void Post(std::function<void()> task, Hurry hurry = Hurry::kNow);
  absl::Time Now() const { return clock_->Now(); }
  // Of events and what is told to people; deadlines are in Now().
  absl::Time WallNow() const { return clock_->WallNow(); }
  // Journal, then state. False if the journal failed: everything has stopped.
  bool Commit(EventBody body);
  // The same, but an error only means that it did not happen.
  absl::Status TryCommit(EventBody body);
  absl::Status Flush();
  void NoteFlushed();
  void TendJournal();
  void ForgetOldJobs();
  void StopNow(const absl::Status& status);
  // OK if requests are answered and the client speaks our protocol.
  absl::Status Admit(const v1::ClientVersion& version) const;
  absl::StatusOr<const JobRecord*> Find(const std::string& job_id) const;
  void TickNow();

  // controller_workers.cc
  void HandleMessage(const WorkerLink* link, const v1::WorkerMessage& message);
  void HandleRegister(Session& session, const v1::WorkerMessage& message);
  // The process is known and comes back.
  void HandleReturn(Session& session, const v1::Register& registration);
  void HandleResumed(const Session& session, const v1::WorkerMessage& message);
  void OpenSession(Session& session, const v1::Register& registration,
                   Incarnation incarnation);
  void SendWelcome(const std::string& worker);
  // What the worker keeps of a job's state now.
  void NoteKept(const std::string& worker, const v1::KeptStates& kept);
  // For a placement that was taken over before it had built its stages.
  void FindSources(const std::string& worker);
  void HandleHeartbeat(Session& session, const v1::WorkerMessage& message);
  void HandleWorkerFailed(const Session& session,
                          const v1::WorkerFailed& failed);
  void HandleAnswer(const Session& session, const v1::WorkerMessage& message);
  void HandleLog(const Session& session, const v1::LogChunk& chunk);
  void NoteHeardOf(Session& session);
  bool PassesFence(const Session& session, const v1::WorkerMessage& message);
  // The run whose stages the worker holds; null if none.
  Run* RunOf(const std::string& worker);
  Session* SessionOf(const std::string& worker);
  void RefuseSession(const WorkerLink* link, const absl::Status& status);
  void LoseWorker(const std::string& worker, const std::string& reason);
  // Its session ended; it may come back.
  void MissWorker(const std::string& worker);
  std::optional<Position> PositionOf(const std::string& worker) const;
  void CheckSilence();
  // controller_stuck.cc
  void CheckStuck();
  // Without anything new from a worker that owes an answer; of a running job.
  absl::Duration StuckAfter(const Run& run) const;
  // How long nothing may happen, as far as steps are known.
  absl::Duration RestLimit(const JobRecord& job) const;
  std::optional<FailureReport> FindRest(const Run& run, absl::Duration limit);
  void CheckRest();
  v1::CoordinatorMessage Fenced(v1::CoordinatorMessage message, Epoch epoch,
                                Incarnation incarnation) const;
  void SendTo(const std::string& worker, v1::CoordinatorMessage message,
              Epoch epoch);

  // controller_jobs.cc
  absl::StatusOr<v1::SubmitJobResponse> SubmitNow(
      const v1::SubmitJobRequest& request);
  absl::StatusOr<v1::CancelJobResponse> CancelNow(
      const v1::CancelJobRequest& request);
  absl::StatusOr<v1::CheckpointJobResponse> CheckpointNow(
      const v1::CheckpointJobRequest& request);
  // If the journal takes it; TickNow tries again.
  void StartPlanning(const std::string& job_id);
  void Plan(const std::string& job_id);
  void OnPlanned(const std::string& job_id, absl::StatusOr<PlannedJob> planned);
  // Gives queued jobs their workers, first come first.
  void Schedule();
  void Place(const std::string& job_id, const std::vector<std::string>& names);
  void Perform(const std::string& job_id, JobRun::Output output);
  void ReportFailure(const std::string& job_id, FailureReport report);
  void Judge(const std::string& job_id);
  void FailJob(const std::string& job_id, FailureVerdict verdict,
               const std::string& reason);
  void StartRelease(const std::string& job_id, const std::string& reason);
  void OnWorkerGone(const std::string& job_id, int index, FailureReport report);
  // Ends a job whose workers have all let go.
  void CheckReleased(const std::string& job_id);
  void CheckRunDeadlines();
  void CheckBlame(const std::string& job_id);

  // controller_recovery.cc
  void FailOrRecover(const std::string& job_id, FailureVerdict verdict);
  void Recover(const std::string& job_id, FailureVerdict verdict,
               const std::string& reason);
  // The worker is to end: its job moves, and it gets no other.
  void DrainWorker(const std::string& worker, const std::string& reason);
  void CheckDraining();
  void MoveJob(const std::string& job_id);
  // With what it goes on; asked on the other executor.
  void ChooseState(const std::string& job_id);
  // Where the copies of one state are, by stage.
  std::vector<v1::StateSource> SourcesOf(const KeptChoice& kept) const;
  bool AllKept(const PlannedJob& planned) const;
  // Chooses again for jobs that were to begin with copies of this worker's.
  void ForgetKeeper(const std::string& worker);
  // Nobody needs to keep copies of the job, or nobody but its workers.
  void DropCopies(const std::string& job_id, bool of_its_workers = true);
  // A worker that comes with copies that are of no use any more.
  void DropStaleCopies(const std::string& worker);
  void OnStateChosen(const std::string& job_id, size_t attempt,
                     const absl::StatusOr<RestoredPlans>& chosen);
  // Those that recover, then the queue.
  std::vector<std::string> WaitingJobs() const;
  void CheckRecoveries();
  void GiveUp(const std::string& job_id, const std::string& why);
  void TakeOverRecovery(const JobRecord& job);

  // controller_takeover.cc
  void TakeOverJob(const JobRecord& job);
  void TakeOverRun(const JobRecord& job);

  // controller_plans.cc
  // With what a worker of the placed job measured.
  void PlanAgain(const std::string& job_id, Epoch epoch,
                 const v1::ModelProfile& profile);
  // Its workers' memory cannot suffice: finds a change that fits, then fails
  // it.
  void EndForMemory(const std::string& job_id, job::OverLimit over_limit);
  // A worker's memory did not suffice: reports it with a change that fits.
  void ReportOutOfMemory(const std::string& job_id, FailureReport report);
  // Plans; the answer comes later, unless it is an error.
  absl::Status StartReschedule(const v1::RescheduleJobRequest& request,
                               const Reply<v1::RescheduleJobResponse>& reply);
  absl::StatusOr<v1::RescheduleJobResponse> TakeSchedule(
      const std::string& job_id, Epoch epoch,
      absl::StatusOr<PlannedJob> planned);
  void OnPlannedAgain(const std::string& job_id, Epoch epoch,
                      const v1::ModelProfile& profile,
                      absl::StatusOr<PlannedJob> planned);

  // controller_queries.cc
  void OfferToReaders();
  absl::StatusOr<const JobRecord*> FindForMemory(
      const v1::GetMemoryStatsRequest& request) const;

  const ControllerOptions options_;
  Clock* const clock_;
  Executor* const executor_;
  Executor* const planning_;
  Journal* const journal_;

  // Touched on the executor only.
  ClusterState state_;
  FenceCounters refused_;
  absl::Status stopped_;
  absl::Time last_tick_;
  std::map<const WorkerLink*, Session> sessions_;
  std::map<std::string, const WorkerLink*> links_;  // of registered workers
  std::map<std::string, Away> away_;                // the other live ones
  KeptByWorker kept_;
  std::set<std::string> draining_;  // workers that are to end
  std::map<std::string, std::shared_ptr<const PlannedJob>> plans_;
  std::map<std::string, Run> runs_;                           // by job
  std::map<std::string, Recovery, NaturalOrder> recoveries_;  // by job
  JobWatches watches_{&state_};
  std::vector<ReaderRecord> readers_;
  JobLogs logs_;
  MemoryQuestions memory_;
  absl::Time flush_due_ = absl::InfiniteFuture();
  absl::Time compact_after_ = absl::InfinitePast();
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_CONTROLLER_H_
