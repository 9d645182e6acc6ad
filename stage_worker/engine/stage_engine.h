#ifndef STAGECOACH_STAGE_WORKER_ENGINE_STAGE_ENGINE_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_STAGE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/tensor_descriptor.h"
#include "job/job_spec.h"
#include "job/split.h"
#include "memory/accounting_allocator.h"
#include "stage_worker/data/data_source.h"

namespace stagecoach::worker {

// A tensor that the executor moves but never looks into: contiguous, detached
// from any autograd graph. Dropping the last reference gives its bytes back
// unless the engine keeps them for backward.
class EngineTensor {
 public:
  virtual ~EngineTensor() = default;
  virtual const TensorDescriptor& descriptor() const = 0;
  virtual const void* data() const = 0;
  // Identity of the storage behind it, for StageEngine::RetainingOp.
  virtual const void* storage() const = 0;
  // Tells when the storage is really freed. Null where memory is not accounted.
  virtual std::shared_ptr<const memory::BlockWatch> watch() const = 0;
  // Whether the device has finished writing it; on CPU at once.
  virtual bool ready() const { return true; }
};
using TensorRef = std::shared_ptr<EngineTensor>;

// Memory of the receiver in which an output may be produced.
struct OutputSlot {
  void* data = nullptr;  // 64-byte aligned
  size_t bytes = 0;
  // Held for as long as anything of the engine's lies there.
  std::shared_ptr<void> memory;
};

// One stage that this worker holds.
struct StageAssignment {
  StageIndex stage;
  job::StageLayers layers;
  bool first = false;
  bool last = false;
};

struct EngineOptions {
  job::JobSpec spec;
  std::vector<StageAssignment> stages;  // ascending
  DataSource* data = nullptr;           // must outlive the engine
  // What comes over the wire is made up (a profile): only its sizes mean
  // anything.
  bool made_up_inputs = false;
};

// Loss of one microbatch, from the worker of the last stage.
struct MicrobatchLoss {
  MicrobatchIndex microbatch;
  double loss_sum = 0;  // over its target tokens
};

// What one op keeps of one microbatch.
struct HeldBytes {
  StageIndex stage;
  MicrobatchIndex microbatch;
  std::string op;  // "GeluBackward0"
  int64_t tensors = 0;
  int64_t bytes = 0;
};

struct ParameterNorm {
  int64_t global_index = 0;  // order over the whole model, for a fixed sum
  double squared = 0;        // in double
};

// What a worker knows of a step once its list is done.
struct GradientReport {
  std::vector<MicrobatchLoss> losses;  // ascending
  std::vector<ParameterNorm> norms;  // each parameter once, tied ones by owner
  bool all_finite = true;
};

struct UpdateOptions {
  StepIndex step;  // from 0; Adam's bias correction counts from 1
  double clip_factor = 1;
  double learning_rate = 0;
};

struct ParameterDigest {
  std::string name;  // as a checkpoint stores it
  TensorDescriptor descriptor;
  std::string sha256;  // of its bytes
};

// One tensor of the training state: a parameter, under the name that a
// checkpoint gives it, or optimizer state of one, as "<parameter>.exp_avg".
struct StateTensor {
  std::string name;
  TensorDescriptor descriptor;
  std::shared_ptr<const void> data;  // on the host; descriptor.bytes() of it
};

// What one stage adds to the training state. A tied parameter is its owner's.
struct StageState {
  StageAssignment stage;
  std::vector<StateTensor> parameters;
  std::vector<StateTensor> optimizer;
};

// Fills `data`, on the host, with the tensor of this name; an error unless it
// is there and fits the descriptor.
using StateReader = std::function<absl::Status(
    const std::string& name, const TensorDescriptor& descriptor, void* data)>;

// Runs the stages of one worker for one placement of a job. Single-executor:
// only the engine thread calls it (and the thread that builds and destroys it
// while no engine thread runs). Synchronous on CPU. Errors: kInvalidArgument
// for sizes that do not fit, kResourceExhausted for out of memory, kInternal
// for what the library threw.
class StageEngine {
 public:
  virtual ~StageEngine() = default;

  // Wraps received bytes without copying; `memory` is held until the engine
  // and everyone else has dropped the tensor.
  virtual absl::StatusOr<TensorRef> Adopt(const TensorDescriptor& descriptor,
                                          void* data,
                                          std::shared_ptr<void> memory) = 0;

  // Before BeginStep, where training.precision is "float16": what the loss's
  // gradient is multiplied by. FinishGradients divides by it; what has become
  // too large on the way is not finite then.
  virtual void UseLossScale(double /*scale*/) {}

  // Starts a step: gradients are zero, nothing is in flight. Each microbatch's
  // loss gradient is scaled by 1 / target_tokens (of the whole step).
  virtual absl::Status BeginStep(StepIndex step, int64_t target_tokens) = 0;

  // Where the one output of the next Forward, Backward or BackwardInput may be
  // produced, which is known by its data() then. The engine does so only once
  // it has seen, on an earlier microbatch, that nothing but the returned tensor
  // keeps such an output: dropping that gives the memory back. An engine may
  // leave every offer unused.
  virtual void OfferOutput(OutputSlot /*slot*/) {}

  // Runs the stage's forward. The first stage takes no inputs and reads its
  // samples from the data source; the last one returns no outputs and keeps
  // the loss. Outputs are detached: autograd's edge stays in the engine, keyed
  // by (stage, microbatch), until the backward or Drop.
  virtual absl::StatusOr<std::vector<TensorRef>> Forward(
      StageIndex stage, MicrobatchIndex microbatch,
      std::vector<TensorRef> inputs) = 0;
  // Full backward, given the gradients of the outputs (none for the last
  // stage). Returns the gradients of the inputs (none for the first stage).
  virtual absl::StatusOr<std::vector<TensorRef>> Backward(
      StageIndex stage, MicrobatchIndex microbatch,
      std::vector<TensorRef> output_gradients) = 0;
  // Input gradient alone, and later the weight gradient. kUnimplemented where
  // the engine cannot split.
  virtual absl::StatusOr<std::vector<TensorRef>> BackwardInput(
      StageIndex stage, MicrobatchIndex microbatch,
      std::vector<TensorRef> output_gradients) = 0;
  virtual absl::Status BackwardWeight(StageIndex stage,
                                      MicrobatchIndex microbatch) = 0;

  // What is held for backwards that are still to come, by stage, microbatch and
  // op, the largest first within a microbatch. Activations alone: received
  // inputs that are held lie in the receive pool. Adds up to the allocator's
  // activation bytes, less outputs that are not released yet.
  virtual std::vector<HeldBytes> ListHeld() = 0;

  // Name of the op that saved `storage` for the backward of (stage,
  // microbatch), for example "TanhBackward0"; "" if none did.
  virtual std::string RetainingOp(StageIndex stage, MicrobatchIndex microbatch,
                                  const void* storage) = 0;

  // Tied gradients (embedding and head). Where this worker has both stages:
  // both leaves get first + last.
  virtual absl::Status ReduceTiedLocally() = 0;
  // This worker's contribution, as a copy that may be sent.
  virtual absl::StatusOr<TensorRef> CopyTiedGradient() = 0;
  // Owner (the first stage): own gradient += other.
  virtual absl::Status AddTiedGradient(const TensorRef& other) = 0;
  // Other side: own gradient = sum.
  virtual absl::Status SetTiedGradient(const TensorRef& sum) = 0;

  // Starts an evaluation between two steps, before `step`: forwards of
  // `microbatches` microbatches of step 0 of `data` (which must outlive it),
  // that keep nothing. FinishEvaluation returns their losses, where this worker
  // has the last stage, and changes nothing.
  virtual absl::Status BeginEvaluation(StepIndex step, DataSource* data,
                                       int64_t microbatches) = 0;
  virtual absl::StatusOr<std::vector<MicrobatchLoss>> FinishEvaluation() = 0;

  // After the last action of a step.
  virtual absl::StatusOr<GradientReport> FinishGradients() = 0;
  virtual absl::Status ApplyUpdate(const UpdateOptions& options) = 0;
  // Forgets everything in flight and the step's gradients. Legal in any state.
  virtual void Drop() = 0;

  // Digests of all parameters of this worker, tied ones by the owner only.
  virtual absl::StatusOr<std::vector<ParameterDigest>> DigestParameters() = 0;

  // Between steps: a copy of all parameters and optimizer state, which later
  // updates do not change and any thread may read and drop.
  virtual absl::StatusOr<std::vector<StageState>> ExportState() = 0;
  // Between steps: replace all parameters, or all optimizer state, by what
  // `read` gives, tied copies too. After an error they are of no use.
  virtual absl::Status ImportParameters(const StateReader& read) = 0;
  virtual absl::Status ImportOptimizer(const StateReader& read) = 0;
};

// A worker's main registers one for each engine it offers. Blocks while the
// stages are built.
using EngineFactory =
    std::function<absl::StatusOr<std::unique_ptr<StageEngine>>(
        const EngineOptions& options)>;

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_STAGE_ENGINE_H_
