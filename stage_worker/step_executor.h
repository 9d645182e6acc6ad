#ifndef STAGECOACH_STAGE_WORKER_STEP_EXECUTOR_H_
#define STAGECOACH_STAGE_WORKER_STEP_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "memory/ledger.h"
#include "schedule/schedule.h"
#include "stage_worker/abort_flag.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/output_slots.h"
#include "stage_worker/peer_link.h"
#include "stage_worker/position.h"

namespace stagecoach::worker {

struct StepExecutorOptions {
  WorkerIndex worker;
  Epoch epoch;
  // Tells the transfers of a step from those of the evaluation before it.
  int32_t replica = 0;
  // All must outlive the executor.
  const schedule::Schedule* schedule = nullptr;  // lowered
  StageEngine* engine = nullptr;
  PeerLink* link = nullptr;
  memory::Ledger* ledger = nullptr;
  const AbortFlag* abort = nullptr;
  PositionBoard* position = nullptr;
  // Called after each action, with it.
  std::function<void(StepIndex step, const schedule::Action& action)>
      after_action = [](StepIndex, const schedule::Action&) {};
  // Called then, and again and again while the executor waits. Cheap.
  std::function<void()> between_actions = [] {};
  // Outputs are produced in the receiver's memory where that can be.
  bool produce_in_place = false;
};

// When a worker computed in a step, on the host's steady clock.
struct StepTiming {
  int64_t compute_start_nanoseconds = 0;  // first compute action began
  int64_t compute_end_nanoseconds = 0;    // last one ended
  int64_t busy_nanoseconds = 0;           // inside compute actions
};

// Runs a worker's list of one step strictly in order. Receives are posted
// ahead by the link, sends are asynchronous, and an output belongs to the
// ledger from the end of its compute action on. Single-executor: the engine
// thread.
class StepExecutor {
 public:
  explicit StepExecutor(const StepExecutorOptions& options);

  // Returns once the list is done and the ledger is empty. On an error (the
  // engine's, or the abort flag's) the step is left as it is: call
  // StageEngine::Drop and forget it.
  absl::StatusOr<StepTiming> RunStep(StepIndex step, int64_t target_tokens);
  // Likewise an evaluation before `step`: the schedule has forwards only.
  absl::StatusOr<std::vector<MicrobatchLoss>> RunEvaluation(StepIndex step,
                                                            DataSource* data);
  // Drops every tensor that waits for an action.
  void Clear();

 private:
  // What waits for (stage, microbatch).
  struct Cell {
    std::vector<TensorRef> inputs;            // for F
    std::vector<TensorRef> output_gradients;  // for B or I
    // What the ledger owns and a SEND will name.
    std::vector<transport::OutgoingTensor> activation;
    std::vector<transport::OutgoingTensor> gradient;
    // The same, where it lies in the receiver's memory.
    std::optional<SlotOutput> activation_in_slot;
    std::optional<SlotOutput> gradient_in_slot;
  };

  absl::Status RunList();
  absl::Status Run(const schedule::Action& action);
  absl::Status Compute(const schedule::Action& action);
  absl::Status Forward(const schedule::Action& action);
  absl::Status Backward(const schedule::Action& action);
  absl::Status BackwardWeight(const schedule::Action& action);
  absl::Status Receive(const schedule::Action& action);
  absl::Status AwaitRelease(const schedule::Action& action);
  absl::Status Send(const schedule::Action& action);
  absl::Status ReduceTied();
  absl::Status ReduceTiedAsOwner(const LinkEdge& to_other,
                                 const LinkEdge& from_other);
  absl::Status ReduceTiedAsOther(const LinkEdge& to_owner,
                                 const LinkEdge& from_owner);
  absl::Status SendTied(const LinkEdge& edge, StageIndex stage);

  // Hands the outputs of an action to the ledger and makes them ready for the
  // SEND of `cell`.
  absl::Status HandOver(const memory::TransferKey& key, WorkerIndex to,
                        std::vector<TensorRef> outputs, Cell* cell);
  // Hands outputs to the ledger; returns what a SEND needs.
  absl::StatusOr<std::vector<transport::OutgoingTensor>> HandToLedger(
      const memory::TransferKey& key, std::vector<TensorRef> outputs,
      const std::string& peer);
  absl::StatusOr<std::vector<TensorRef>> TakeTransfer(
      const LinkEdge& edge, const memory::TransferKey& expected);
  absl::Status WaitUntil(const char* waiting_for,
                         const std::function<bool()>& condition);
  void NameRetentions();
  Cell& CellOf(StageIndex stage, MicrobatchIndex microbatch);
  memory::TransferKey Key(StageIndex stage, MicrobatchIndex microbatch,
                          Direction direction) const;
  // Name of the receiver at the end of the action's edge.
  const std::string& Receiver(const schedule::Action& action) const;

  const StepExecutorOptions options_;
  const schedule::Schedule& schedule_;
  OutputSlots slots_;
  size_t at_ = 0;  // the action that runs, in this worker's list
  // By stage, then microbatch; only this worker's stages have rows.
  std::vector<std::vector<Cell>> cells_;
  StepIndex step_;
  StepTiming timing_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_STEP_EXECUTOR_H_
