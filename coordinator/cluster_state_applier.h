#ifndef STAGECOACH_COORDINATOR_CLUSTER_STATE_APPLIER_H_
#define STAGECOACH_COORDINATOR_CLUSTER_STATE_APPLIER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/cluster_state.h"

namespace stagecoach::coordinator {

// One overload per kind of event, in three files. Each checks everything before
// it changes anything. Of ClusterState's own files only.
struct ClusterState::Applier {
  ClusterState& state;
  absl::Time at;

  // ---- the coordinator and its workers: cluster_state_workers.cc ----
  absl::Status operator()(const CoordinatorStarted& event) const;
  absl::Status operator()(const WorkerRegistered& event) const;
  absl::Status operator()(const WorkerSuspected& event) const;
  absl::Status operator()(const WorkerAnswered& event) const;
  absl::Status operator()(const WorkerLost& event) const;
  absl::Status operator()(const WorkerReleased& event) const;

  // ---- a job from submission to its last step: cluster_state_jobs.cc ----
  absl::Status operator()(const JobSubmitted& event) const;
  absl::Status operator()(const JobPlanning& event) const;
  absl::Status operator()(const JobPlanned& event) const;
  absl::Status operator()(const JobReplanned& event) const;
  absl::Status operator()(const MemoryPredicted& event) const;
  absl::Status operator()(const JobWaiting& event) const;
  absl::Status operator()(const JobPlaced& event) const;
  absl::Status operator()(const JobRunning& event) const;
  absl::Status operator()(const JobRescheduleRequested& event) const;
  absl::Status operator()(const JobRescheduled& event) const;
  absl::Status operator()(const StepCommitted& event) const;
  absl::Status operator()(const CheckpointRequested& event) const;
  absl::Status operator()(const CheckpointStored& event) const;
  absl::Status operator()(const CheckpointFailed& event) const;

  // ---- what ends or interrupts a job: cluster_state_endings.cc ----
  absl::Status operator()(const JobRefused& event) const;
  absl::Status operator()(const JobRecovering& event) const;
  absl::Status operator()(const JobRewound& event) const;
  absl::Status operator()(const JobFailing& event) const;
  absl::Status operator()(const JobFailed& event) const;
  absl::Status operator()(const JobCancelRequested& event) const;
  absl::Status operator()(const JobCancelled& event) const;
  absl::Status operator()(const JobSucceeded& event) const;
  absl::Status operator()(const JobForgotten& event) const;

  // ---- for all of them ----
  static absl::Status Impossible(const std::string& what) {
    return absl::FailedPreconditionError(
        absl::StrCat("this event cannot have happened: ", what));
  }
  absl::Status FindLive(const std::string& name, WorkerRecord** worker) const;
  absl::Status Find(const std::string& id, JobRecord** job) const;
  // Finds the job and moves it on.
  absl::Status Move(const std::string& id, JobState to, JobRecord** job) const;
  absl::Status FindRunning(const std::string& id, JobRecord** job) const;

 private:
  // Where every start of a worker has a name of its own, the dead ones add up:
  // beyond kDeadWorkers those that no remembered job had are forgotten, in the
  // order of their names.
  void RetireDeadWorkers() const;
  bool IsRemembered(const std::string& worker) const;
  // training.kernels = "auto" is decided with the first placement, for good:
  // later workers take what is stored. Without torch there is nothing to
  // decide.
  void ChooseKernels(const std::vector<std::string>& workers,
                     JobRecord* job) const;
  // If all steps that a recovery did again are committed.
  void NoteCaughtUp(JobRecord* job) const;
  static void NoteAttempt(JobRecord* job, int64_t step);
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_CLUSTER_STATE_APPLIER_H_
