#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_STAGE_ENGINE_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_STAGE_ENGINE_H_

#include <ATen/core/Tensor.h>

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
#include "absl/strings/string_view.h"
#include "job/job_spec.h"
#include "memory/category.h"
#include "schedule/action.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/engine/step_protocol.h"
#include "stage_worker/engine/torch/autograd_edges.h"
#include "stage_worker/engine/torch/output_placement.h"
#include "stage_worker/engine/torch/parameter_store.h"
#include "stage_worker/model/stage_model.h"

namespace stagecoach::worker {

using Tensors = std::vector<at::Tensor>;

// Throws std::invalid_argument for a tensor of another engine.
const at::Tensor& TensorOf(const TensorRef& ref);
Tensors TensorsOf(const std::vector<TensorRef>& refs);

schedule::Action Act(schedule::ActionKind kind, StageIndex stage,
                     MicrobatchIndex microbatch);
memory::Tag ActivationTag(StageIndex stage, MicrobatchIndex microbatch);
memory::Tag PlainTag(memory::Category category);

// Until the last engine's end.
struct GiveMemoryBack {
  ~GiveMemoryBack();
};

// The engine on libtorch; see torch_engine.h. One source for each of its jobs:
// forward, backward, what is held, tied gradients, and the rest (steps, update,
// state). Single-executor.
class TorchEngine final : public StageEngine {
 public:
  TorchEngine(const EngineOptions& options, const at::Device& device)
      : device_(device),
        data_(options.data),
        training_(options.spec.training),
        isolated_(options.spec.data.isolated()),
        seed_(options.spec.seed),
        stages_(options.stages),
        recomputed_(RecomputedStages(options)),
        protocol_(ProtocolOptions(options)) {}

  // Makes the models and their parameters. Once, before anything else.
  absl::Status Build(const EngineOptions& options,
                     const StageModelFactory& factory,
                     const std::string& mapping_directory);

  absl::StatusOr<TensorRef> Adopt(const TensorDescriptor& descriptor,
                                  void* data,
                                  std::shared_ptr<void> memory) override;
  void UseLossScale(double scale) override { loss_scale_ = scale; }
  absl::Status BeginStep(StepIndex step, int64_t target_tokens) override;
  void OfferOutput(OutputSlot slot) override { offered_ = std::move(slot); }
  absl::StatusOr<std::vector<TensorRef>> Forward(
      StageIndex stage, MicrobatchIndex microbatch,
      std::vector<TensorRef> inputs) override;
  absl::StatusOr<std::vector<TensorRef>> Backward(
      StageIndex stage, MicrobatchIndex microbatch,
      std::vector<TensorRef> output_gradients) override;
  absl::StatusOr<std::vector<TensorRef>> BackwardInput(
      StageIndex stage, MicrobatchIndex microbatch,
      std::vector<TensorRef> output_gradients) override;
  absl::Status BackwardWeight(StageIndex stage,
                              MicrobatchIndex microbatch) override;
  std::vector<HeldBytes> ListHeld() override;
  std::string RetainingOp(StageIndex stage, MicrobatchIndex microbatch,
                          const void* storage) override;
  absl::Status ReduceTiedLocally() override;
  absl::StatusOr<TensorRef> CopyTiedGradient() override;
  absl::Status AddTiedGradient(const TensorRef& other) override;
  absl::Status SetTiedGradient(const TensorRef& sum) override;
  absl::Status BeginEvaluation(StepIndex step, DataSource* data,
                               int64_t microbatches) override;
  absl::StatusOr<std::vector<MicrobatchLoss>> FinishEvaluation() override;
  absl::StatusOr<GradientReport> FinishGradients() override;
  absl::Status ApplyUpdate(const UpdateOptions& options) override;
  void Drop() override;
  absl::StatusOr<std::vector<ParameterDigest>> DigestParameters() override;
  absl::StatusOr<std::vector<StageState>> ExportState() override;
  absl::Status ImportParameters(const StateReader& read) override;
  absl::Status ImportOptimizer(const StateReader& read) override;

 private:
  using Key = std::pair<StageIndex, MicrobatchIndex>;

  const GiveMemoryBack give_memory_back_{};  // first, so that it is last to go

  static StepProtocol::Options ProtocolOptions(const EngineOptions& options);
  static std::set<StageIndex> RecomputedStages(const EngineOptions& options);
  bool Recomputes(StageIndex stage) const {
    return recomputed_.count(stage) > 0;
  }
  absl::StatusOr<TokenBatch> ReadData(const StageAssignment& stage,
                                      MicrobatchIndex microbatch);
  std::vector<TensorRef> RunForward(const StageAssignment& stage,
                                    MicrobatchIndex microbatch,
                                    std::vector<TensorRef> inputs,
                                    const TokenBatch& batch);
  // The model's outputs. Null graph: autograd is off and nothing is kept.
  Tensors RunModel(const StageAssignment& stage, MicrobatchIndex microbatch,
                   Tensors inputs, const TokenBatch& batch,
                   MicrobatchGraph* graph);
  void ListKeptInputs(std::vector<HeldBytes>* held) const;
  // With memory.recompute: the forward that F left out, before B or I.
  absl::Status Recompute(const StageAssignment& stage,
                         MicrobatchIndex microbatch);
  std::vector<TensorRef> KeepOutputs(const Key& key, Tensors outputs,
                                     OutputPlacement::Call* call,
                                     MicrobatchGraph* graph);
  OutputPlacement* PlacementOf(schedule::ActionKind kind, StageIndex stage);
  // Detached, in memory from which they can leave: the slot of the call, if
  // they were produced there.
  static std::vector<TensorRef> ReadyForWire(const Key& key, Tensors* outputs,
                                             OutputPlacement::Call* call);
  void KeepLoss(MicrobatchIndex microbatch, const Tensors& outputs);
  // B or I.
  absl::StatusOr<std::vector<TensorRef>> RunBackward(
      const schedule::Action& action, std::vector<TensorRef> output_gradients);
  // What arrived, and the loss's own.
  Tensors OutputGradients(const StageAssignment& stage,
                          const std::vector<TensorRef>& received) const;
  absl::StatusOr<at::Tensor> TiedGradient(const StageParameter* parameter,
                                          absl::string_view call) const;
  void UseThreadsHere();
  std::vector<MicrobatchLoss> Losses() const;

  const at::Device device_;
  DataSource* const data_;
  DataSource* evaluation_data_ = nullptr;  // of the present evaluation
  const job::TrainingSpec training_;
  const bool isolated_;  // documents
  const int64_t seed_;
  double loss_scale_ = 1;
  const std::vector<StageAssignment> stages_;
  // Those whose whole forward is run again; single layers the models run again.
  const std::set<StageIndex> recomputed_;
  StepProtocol protocol_;
  std::map<StageIndex, std::unique_ptr<StageModel>> models_;
  std::unique_ptr<ParameterStore> parameters_;
  std::map<Key, MicrobatchGraph> graphs_;
  // With memory.recompute: what a forward can be run from again.
  std::map<Key, Tensors> kept_inputs_;
  std::map<std::pair<schedule::ActionKind, StageIndex>, OutputPlacement>
      placements_;
  OutputPlacement unused_;             // an evaluation's outputs are copied
  std::optional<OutputSlot> offered_;  // for the next call's output
  std::map<MicrobatchIndex, double> losses_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_STAGE_ENGINE_H_
