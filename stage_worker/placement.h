#ifndef STAGECOACH_STAGE_WORKER_PLACEMENT_H_
#define STAGECOACH_STAGE_WORKER_PLACEMENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "job/job_spec.h"
#include "job/memory_profile.h"
#include "memory/accounting_allocator.h"
#include "memory/device_account.h"
#include "memory/ledger.h"
#include "schedule/schedule.h"
#include "stage_worker/abort_flag.h"
#include "stage_worker/data/data_source.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/engine_questions.h"
#include "stage_worker/memory_timeline.h"
#include "stage_worker/paths.h"
#include "stage_worker/peer_link.h"
#include "stage_worker/placement_memory.h"
#include "stage_worker/position.h"
#include "stage_worker/step_executor.h"
#include "transport/control_channel.h"
#include "transport/transport.h"

namespace stagecoach::worker {

// What a placement is made of; the worker's main chooses the real parts, tests
// choose others.
struct PlacementParts {
  EngineFactory engine_factory;
  // The ways between workers, the best first.
  std::vector<Transport> transports;
  std::function<absl::StatusOr<std::unique_ptr<DataSource>>(
      const job::JobSpec& spec)>
      data_factory;
  // Must outlive every placement.
  memory::AccountingAllocator* allocator = nullptr;
  // Likewise; null where the device is the host, or cannot be observed.
  memory::DeviceAccount* device = nullptr;
  Clock* clock = nullptr;
  // Run a microbatch before the first step to learn what it takes. Needs an
  // engine that takes made-up inputs.
  bool profile_memory = false;
  // Fill freed blocks and returned wire slots, for tests and debugging.
  bool poison = false;
  // Outputs are produced in the receiver's memory where the path has it mapped.
  bool produce_in_place = false;
};

struct PlacementOptions {
  std::string job_id;
  Epoch epoch;
  job::JobSpec spec;
  WorkerIndex worker;
  std::vector<std::string> worker_names;  // by index
  std::vector<StageAssignment> stages;    // of this worker, ascending
  schedule::Schedule schedule;            // lowered and verified; the first
  schedule::Schedule evaluation;          // likewise; no workers without one
  size_t boundary_bytes = 0;
  // Folder of the checkpoint to begin with; empty: the model's own beginning.
  std::string checkpoint;
  // Or else, if it begins with copies that workers keep: gives them to the
  // engine. Blocks.
  std::function<absl::Status(StageEngine* engine)> restore;
  PathsResolver paths_of;  // of every worker of the job
  // For a transport that carries only payloads.
  transport::ControlChannelFactory control_channels;
  // Called once if the placement stops by itself (an edge was lost), on some
  // thread of the transport.
  std::function<void()> on_aborted;
};

// One placement of one job on this worker: its stages, its data, its ends of
// the data path, its ledger. Everything of an epoch dies with it.
//
// The engine thread calls Create to destruction, except for the thread-safe
// part at the end.
class Placement {
 public:
  // Builds the stages, opens the data and the receiving ends. Blocks.
  static absl::StatusOr<std::unique_ptr<Placement>> Create(
      const PlacementParts& parts, const PlacementOptions& options);
  ~Placement();

  // What one microbatch takes here; empty where that is not measured.
  const std::optional<job::WorkerMemoryProfile>& memory_profile() const {
    return memory_profile_;
  }
  std::vector<PeerLink::Description> Describe() const {
    return link()->Describe();
  }
  int64_t receive_pool_bytes() const { return link()->receive_pool_bytes(); }
  std::vector<std::string> EdgeSummaries() const {
    return link()->EdgeSummaries();
  }

  // Between two steps: closes the edges and opens receiving ends for another
  // schedule of the same stages. Connect follows.
  absl::Status ChangeSchedule(schedule::Schedule schedule,
                              schedule::Schedule evaluation);

  absl::Status Connect(const PeerLink::Resolver& resolver,
                       absl::Duration timeout);

  struct StepOutcome {
    GradientReport gradients;
    StepTiming timing;
  };
  absl::StatusOr<StepOutcome> RunStep(StepIndex step, int64_t target_tokens,
                                      double loss_scale = 1);
  struct Evaluation {
    std::vector<MicrobatchLoss> losses;  // where the last stage is
    int64_t nanoseconds = 0;
  };
  // Forwards on the spec's evaluation data, between two steps: before `step`.
  // All workers of the job do so together.
  absl::StatusOr<Evaluation> Evaluate(StepIndex step);
  // The prepared step's outcome; `skip` discards its gradients.
  absl::Status Apply(const UpdateOptions& update, bool skip);
  absl::StatusOr<std::vector<ParameterDigest>> DigestParameters();
  // Between steps: a copy of the training state, for any thread.
  absl::StatusOr<std::vector<StageState>> ExportState();
  // Answers who has asked; for the time between steps.
  void ServeQuestions() { questions_.Serve(engine_.get()); }
  // Closes the edges, drops every tensor in flight and discards what the ledger
  // still holds. Afterwards only Memory() makes sense. Idempotent.
  void Stop();

  // ---- thread-safe ----
  const std::string& job_id() const { return options_.job_id; }
  const PlacementOptions& options() const { return options_; }
  Epoch epoch() const { return options_.epoch; }
  // Makes every wait return; the engine thread then stops the placement.
  void Abort(const absl::Status& status);
  const AbortFlag& abort_flag() const { return abort_; }
  std::optional<Position> position() const { return position_.Get(); }
  PlacementMemory Memory() const;
  // Calls `answer` with StageEngine::ListHeld on the engine thread: between two
  // actions of a step, or in ServeQuestions.
  void AskHeld(EngineQuestions::Answer answer);
  // The worker's bytes after each of the last actions.
  std::vector<MemoryPoint> Timeline() const { return timeline_.Points(); }
  // Peaks from now on; the ledger's stay.
  void ResetPeaks();
  // Gives back to the system what is kept for later; returns the bytes.
  int64_t TrimMemory();

 private:
  Placement(const PlacementParts& parts, const PlacementOptions& options);
  absl::Status Build();
  absl::Status BuildEngine();
  absl::Status MeasureMemory();
  // Of an error for lack of memory: who holds what, for people.
  absl::Status WithHolders(const absl::Status& status);
  // Link and executor for schedule_.
  absl::Status OpenLink();
  // Null before the first and while the schedule changes.
  std::shared_ptr<PeerLink> link() const SC_EXCLUDES(mu_);
  void SetLink(std::shared_ptr<PeerLink> link) SC_EXCLUDES(mu_);
  PeerLinkOptions LinkOptions();

  const PlacementParts parts_;
  const PlacementOptions options_;
  // Link and executors use these.
  schedule::Schedule schedule_;
  schedule::Schedule evaluation_;
  AbortFlag abort_;
  PositionBoard position_;
  EngineQuestions questions_;
  MemoryTimeline timeline_;
  memory::Ledger ledger_;
  std::unique_ptr<DataSource> data_;
  std::unique_ptr<DataSource> evaluation_data_;  // null without an evaluation
  std::unique_ptr<StageEngine> engine_;
  std::optional<job::WorkerMemoryProfile>
      memory_profile_;  // fixed after Create
  std::unique_ptr<StepExecutor> executor_;
  std::unique_ptr<StepExecutor> evaluator_;  // likewise
  mutable Mutex mu_;
  std::shared_ptr<PeerLink> link_ SC_GUARDED_BY(mu_);
  // Of links that a change of the schedule has ended.
  LinkTraffic earlier_traffic_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_PLACEMENT_H_
