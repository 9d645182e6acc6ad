#ifndef STAGECOACH_COORDINATOR_EVENT_H_
#define STAGECOACH_COORDINATOR_EVENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/ids.h"
#include "coordinator/failure.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/job_spec.pb.h"
#include "stagecoach/v1/memory.pb.h"
#include "stagecoach/v1/memory_profile.pb.h"
#include "stagecoach/v1/model_profile.pb.h"

namespace stagecoach::coordinator {

// A coordinator took the state over; its term is greater than any before.
struct CoordinatorStarted {
  Term term;
};

// ---- workers ----------------------------------------------------------------

struct WorkerRegistered {
  std::string worker;
  Incarnation incarnation;
  std::string host;
  int64_t process_id = 0;
  std::string device;
  std::string version;
  std::string torch_version;
  std::string peer_address;
};
// Misses heartbeats, or its session ended.
struct WorkerSuspected {
  std::string worker;
  std::string reason;
};
// Is heard of again.
struct WorkerAnswered {
  std::string worker;
};
// Dead for the cluster, whatever its process does.
struct WorkerLost {
  std::string worker;
  std::string reason;
};
// Of an evaluation.
struct MicrobatchLossSum {
  int32_t microbatch = 0;
  double loss_sum = 0;
};
// Holds nothing of the job any more. What it said about its memory passes
// through as it came. After the last step it leaves its parameters' digests.
struct WorkerReleased {
  std::string worker;
  std::string job_id;
  std::optional<v1::WorkerMemory> memory;
  bool finished = false;
  std::vector<v1::ParameterDigest> parameters;
  std::vector<MicrobatchLossSum> evaluation_losses;  // after the last step
};

// ---- jobs -------------------------------------------------------------------

struct JobSubmitted {
  std::string job_id;
  std::string request_id;
  v1::JobSpec spec;
  // Go on from the newest checkpoint of its directory.
  bool resume = false;
};
struct JobPlanning {
  std::string job_id;
};
struct StagePlan {
  int64_t layer_begin = 0;
  int64_t layer_end = 0;
  int32_t worker = 0;  // index in the job
  int64_t output_bytes = 0;
};
// Accepted by the verifier; waits for its workers.
struct JobPlanned {
  std::string job_id;
  std::string schedule;  // its kind
  std::string schedule_id;
  std::vector<StagePlan> stages;
  int64_t first_step = 0;
  std::string checkpoint;  // where first_step > 0: the folder it begins with
  std::optional<v1::LossScaleState> loss_scale;  // of that
};
// Planned again with what its workers measured, while it is being placed.
struct JobReplanned {
  std::string job_id;
  std::string schedule;
  std::string schedule_id;
  std::vector<StagePlan> stages;
  v1::ModelProfile profile;  // what the plan can be made of again
};
// What each worker's peak will be, by what one microbatch took; before the
// first step, and again where the job changes its schedule.
struct MemoryPredicted {
  std::string job_id;
  std::vector<v1::MemoryInterval> workers;  // by index
};
// The spec or its schedule cannot be run.
struct JobRefused {
  std::string job_id;
  std::string message;
};
// What a queued or recovering job waits for, for people.
struct JobWaiting {
  std::string job_id;
  std::string reason;
};
struct JobPlaced {
  std::string job_id;
  Epoch epoch;
  std::vector<std::string> workers;  // by index
};
struct JobRunning {
  std::string job_id;
  std::string transport;
  // "activation 0->1: shm (why)", sorted.
  std::vector<std::string> edges;
  std::vector<int64_t> receive_pool_bytes;  // by worker index
};

// The user gives a running job another schedule, which waits for a step
// boundary; in the spec's words. Empty: none waits any more.
struct JobRescheduleRequested {
  std::string job_id;
  std::string requested;
  int64_t send_budget = 0;
};
// The workers have changed over.
struct JobRescheduled {
  std::string job_id;
  std::string schedule;  // its kind
  std::string schedule_id;
  // What the plan can be made of again, in the spec's words.
  std::string requested;
  int64_t send_budget = 0;
  std::string transport;
  std::vector<std::string> edges;           // as JobRunning's
  std::vector<int64_t> receive_pool_bytes;  // by worker index
};

struct StepRecord {
  int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  double seconds = 0;
  double compute_seconds = 0;
  double tokens_per_second = 0;
  bool skipped = false;
  std::optional<double> evaluation_loss;  // before the step
};
// COMMIT (or SKIP) was decided.
struct StepCommitted {
  std::string job_id;
  StepRecord result;
  std::vector<int64_t> busy_nanoseconds;  // by worker index
};

// Somebody asked for a checkpoint after so many updates, or as soon as possible
// after them.
struct CheckpointRequested {
  std::string job_id;
  int64_t step = 0;
};
// A checkpoint of the job is complete: its state after `step` updates.
struct CheckpointStored {
  std::string job_id;
  int64_t step = 0;
  std::string path;
};
// One could not be written; the job goes on without it.
struct CheckpointFailed {
  std::string job_id;
  int64_t step = 0;
  std::string message;
};

// A failure that the job survives: its workers are told to let go, and it will
// be placed again.
struct JobRecovering {
  std::string job_id;
  FailureCause cause;
  std::vector<std::string> victims;
  std::string reason;
};
// Nobody holds anything of it any more, and the state with which it goes on was
// chosen: later steps are done again. Waits for its workers.
struct JobRewound {
  std::string job_id;
  int64_t step = 0;        // updates that the state holds
  std::string checkpoint;  // its folder; empty: step 0, or workers' copies
};

// The first cause is known; the workers are told to let go.
struct JobFailing {
  std::string job_id;
  FailureCause cause;
  std::vector<std::string> victims;
  std::string reason;
};
struct JobFailed {
  std::string job_id;
};
struct JobCancelRequested {
  std::string job_id;
  std::string reason;
};
struct JobCancelled {
  std::string job_id;
  std::string reason;
};
struct JobSucceeded {
  std::string job_id;
  std::vector<v1::ParameterDigest> parameters;  // by name
  std::string parameters_sha256;
  std::optional<double> evaluation_loss;  // after the last step
};
// Too old to be kept; only a finished job is forgotten.
struct JobForgotten {
  std::string job_id;
};

using EventBody =
    std::variant<CoordinatorStarted, WorkerRegistered, WorkerSuspected,
                 WorkerAnswered, WorkerLost, WorkerReleased, JobSubmitted,
                 JobPlanning, JobPlanned, JobReplanned, MemoryPredicted,
                 JobRefused, JobWaiting, JobPlaced, JobRunning,
                 JobRescheduleRequested, JobRescheduled, StepCommitted,
                 CheckpointRequested, CheckpointStored, CheckpointFailed,
                 JobRecovering, JobRewound, JobFailing, JobFailed,
                 JobCancelRequested, JobCancelled, JobSucceeded, JobForgotten>;

// One change of the coordinator's state. Appended to the journal before it
// takes effect; applying all events in order gives the same state again.
struct Event {
  absl::Time
      at;  // the calendar's, in whole nanoseconds: comparable after a reboot
  EventBody body;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_EVENT_H_
