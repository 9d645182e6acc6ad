#ifndef STAGECOACH_COORDINATOR_CLUSTER_STATE_H_
#define STAGECOACH_COORDINATOR_CLUSTER_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "coordinator/event.h"
#include "coordinator/failure.h"
#include "coordinator/job_history.h"
#include "coordinator/job_state.h"
#include "coordinator/natural_order.h"
#include "stagecoach/v1/journal.pb.h"

namespace stagecoach::coordinator {

struct WorkerRecord {
  std::string name;
  Incarnation incarnation;
  std::string host;
  int64_t process_id = 0;
  std::string device;
  std::string version;
  std::string torch_version;
  std::string peer_address;
  bool suspect = false;
  bool dead = false;
  std::string reason;  // why it is suspect or dead
  // The job whose stages it holds; it may outlive the job by moments.
  std::string job_id;

  bool idle() const { return !dead && !suspect && job_id.empty(); }
};

// One worker's part in a job.
struct JobWorkerRecord {
  std::string name;
  int64_t receive_pool_bytes = 0;
  int64_t busy_nanoseconds = 0;  // in compute actions, over all steps
  // Of its peak; empty until the workers have measured a microbatch.
  std::optional<v1::MemoryInterval> predicted;
  // The last it said, when it let go.
  std::optional<v1::WorkerMemory> memory;
  // It let go after the last step, and these are its parameters (until the job
  // has succeeded).
  bool finished = false;
  std::vector<v1::ParameterDigest> parameters;
  std::vector<MicrobatchLossSum> evaluation_losses;
};

// A failure that the job has survived, or is about to.
struct RecoveryRecord {
  FailureCause cause;
  std::vector<std::string> victims;
  absl::Time failed;
  int64_t steps_before = 0;  // committed when it failed
  int64_t step = -1;         // with which it went on; -1: not chosen yet
  // When so many steps were committed again; the time of the next failure, if
  // that came first.
  absl::Time caught_up = absl::InfiniteFuture();

  int64_t steps_redone() const { return step < 0 ? 0 : steps_before - step; }
};

struct JobRecord {
  std::string id;
  std::string request_id;
  v1::JobSpec spec;
  bool resume = false;
  JobState state = JobState::kQueued;
  std::string reason;
  bool planned = false;
  std::string schedule;
  std::string schedule_id;
  std::vector<StagePlan> stages;
  // What the present plan was made of beside the spec.
  std::optional<v1::ModelProfile> profile;
  std::string requested_schedule;     // "": the spec's
  int64_t requested_send_budget = 0;  // 0: the spec's
  // Waits for a step boundary; empty: none.
  std::string next_schedule;
  int64_t next_send_budget = 0;
  Epoch epoch;                           // 0: never placed
  std::vector<JobWorkerRecord> workers;  // by index
  std::string transport;                 // empty until RUNNING
  int64_t first_step = 0;                // that of the checkpoint it began with
  std::optional<v1::LossScaleState> first_loss_scale;  // the checkpoint's
  // With which its present placement began: first_step, or what a recovery went
  // back to; and the folder, unless it is step 0 of a fresh model, or workers
  // kept copies of it.
  int64_t begin_step = 0;
  std::string begin_checkpoint;
  std::vector<RecoveryRecord> recoveries;
  bool rewound = false;           // RECOVERING, and begin_step is chosen
  std::vector<StepRecord> steps;  // from first_step on
  // The newest complete checkpoint, and why the last attempt failed, if it did.
  int64_t checkpoint_step = 0;
  std::string checkpoint_path;
  std::string checkpoint_error;
  int64_t failed_checkpoint_step = 0;
  int64_t requested_checkpoint_step = 0;  // 0: none that is still to come
  std::vector<std::string> edges;         // as JobRunning's
  std::optional<FailureCause> cause;
  std::vector<std::string> victims;
  std::vector<v1::ParameterDigest> parameters;
  std::string parameters_sha256;
  std::optional<double> evaluation_loss;  // after the last step
  absl::Time placed = absl::InfinitePast();
  absl::Time finished = absl::InfinitePast();
  // Grows by one with every change, and by far more with every life of the
  // coordinator.
  int64_t revision = 0;
  // Every change, from revision 1 on.
  std::vector<JobHistoryEntry> history;

  int64_t steps_committed() const {
    return first_step + static_cast<int64_t>(steps.size());
  }
  bool BeginsWithCopies() const {
    return begin_step > 0 && begin_checkpoint.empty();
  }
  // -1 if the worker has no part in the job.
  int IndexOf(const std::string& worker) const;
  // The lowest stage of the worker with this index.
  int32_t LowestStageOf(int worker) const;
};

// What the coordinator knows and must not forget. Pure: no lock, clock or I/O;
// the same events give the same state. Thread-compatible.
class ClusterState {
 public:
  // kFailedPrecondition, and no change at all, for an event that cannot have
  // happened in this state (an unknown job, a step out of order).
  absl::Status Apply(const Event& event);

  const std::map<std::string, WorkerRecord, NaturalOrder>& workers() const {
    return workers_;
  }
  const std::vector<std::string>& job_order() const { return job_order_; }
  const WorkerRecord* FindWorker(const std::string& name) const;
  const JobRecord* FindJob(const std::string& id) const;
  // Of the job submitted with this request id; null if none or it is empty.
  const JobRecord* FindRequest(const std::string& request_id) const;
  // Jobs that are QUEUED or PLANNING, first come first.
  const std::vector<std::string>& queue() const { return queue_; }
  // Unique to each placement, whatever the job.
  Epoch last_epoch() const { return last_epoch_; }
  // Of the coordinator's current life; 0 if none has started.
  Term last_term() const { return last_term_; }
  // Forgotten ones count.
  int64_t jobs_submitted() const { return jobs_submitted_; }

  // The whole state in pieces of at most a few hundred KiB.
  std::vector<v1::SnapshotPart> ToSnapshot() const;
  // kDataLoss if the parts do not belong together.
  static absl::StatusOr<ClusterState> FromSnapshot(
      const std::vector<v1::SnapshotPart>& parts);

  // Everything, for tests: equal states and only they give equal text.
  std::string DebugString() const;

 private:
  struct Applier;

  // The only place where a job changes its state.
  absl::Status Transition(JobRecord& job, JobState to, absl::Time at);

  std::map<std::string, WorkerRecord, NaturalOrder> workers_;
  std::map<std::string, JobRecord> jobs_;
  std::map<std::string, std::string> requests_;  // request id to job id
  std::vector<std::string> job_order_;
  std::vector<std::string> queue_;
  Epoch last_epoch_;
  Term last_term_;
  int64_t jobs_submitted_ = 0;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_CLUSTER_STATE_H_
