#include "stage_worker/engine/torch/torch_engine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <malloc.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "memory/category.h"
#include "stage_worker/engine/step_protocol.h"
#include "stage_worker/engine/torch/autograd_edges.h"
#include "stage_worker/engine/torch/cpu_allocator.h"
#include "stage_worker/engine/torch/device.h"
#include "stage_worker/engine/torch/output_placement.h"
#include "stage_worker/engine/torch/parameter_store.h"
#include "stage_worker/engine/torch/torch_status.h"
#include "stage_worker/engine/torch/torch_tensor.h"
#include "stage_worker/kernels/choice.h"

namespace stagecoach::worker {
namespace {

using schedule::Action;
using schedule::ActionKind;
using Tensors = std::vector<at::Tensor>;

Action Act(ActionKind kind, StageIndex stage, MicrobatchIndex microbatch) {
  Action action;
  action.kind = kind;
  action.stage = stage;
  action.microbatch = microbatch;
  return action;
}

memory::Tag ActivationTag(StageIndex stage, MicrobatchIndex microbatch) {
  memory::Tag tag;
  tag.category = memory::Category::kActivation;
  tag.stage = stage;
  tag.microbatch = microbatch;
  return tag;
}

memory::Tag PlainTag(memory::Category category) {
  memory::Tag tag;
  tag.category = category;
  return tag;
}

// Throws std::invalid_argument for a tensor of another engine.
const at::Tensor& TensorOf(const TensorRef& ref) {
  const auto* const tensor = dynamic_cast<const TorchTensor*>(ref.get());
  if (tensor == nullptr) {
    throw std::invalid_argument("a tensor that is not of this engine");
  }
  return tensor->tensor();
}

Tensors TensorsOf(const std::vector<TensorRef>& refs) {
  Tensors tensors;
  for (const TensorRef& ref : refs) tensors.push_back(TensorOf(ref));
  return tensors;
}

at::Tensor CopyTokens(const std::vector<int64_t>& tokens,
                      const TokenBatch& batch, const at::Device& device) {
  const int64_t expected = batch.rows * batch.sequence_length;
  if (static_cast<int64_t>(tokens.size()) != expected) {
    throw std::invalid_argument(
        absl::StrCat(tokens.size(),
                     " tokens from the data source, not rows x "
                     "sequence length = ",
                     expected));
  }
  at::Tensor copy = at::empty({batch.rows, batch.sequence_length}, at::kLong);
  std::copy(tokens.begin(), tokens.end(), copy.mutable_data_ptr<int64_t>());
  return copy.to(device);
}

// Freed memory stays in the process, for the next microbatch: the kernel clears
// every page that it gives anew, thousands in a step.
void KeepFreedMemory() {
  constexpr int kLargest = 32 << 20;  // that glibc takes
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, 2000 << 20);
  mallopt(M_TOP_PAD, 16 << 20);
  // The others give back what lies at their end whatever is set above.
  mallopt(M_ARENA_MAX, 1);
}

// Until the last engine's end.
struct GiveMemoryBack {
  ~GiveMemoryBack() { malloc_trim(0); }
};

// Accounted as one: parameters are saved too.
bool IsActivation(const SavedTensor& saved) {
  if (!saved.own) return false;
  const memory::Tag tag = memory::AccountingAllocator::Process().TagOf(
      const_cast<void*>(saved.storage));
  return tag.category == memory::Category::kActivation;
}

class TorchEngine final : public StageEngine {
 public:
  TorchEngine(const EngineOptions& options, const at::Device& device)
      : device_(device),
        data_(options.data),
        training_(options.spec.training),
        stages_(options.stages),
        recompute_(options.spec.memory.recompute == job::Recompute::kFull),
        protocol_(ProtocolOptions(options)) {}

  // Makes the models and their parameters. Once, before anything else.
  absl::Status Build(const EngineOptions& options,
                     const StageModelFactory& factory);

  absl::StatusOr<TensorRef> Adopt(const TensorDescriptor& descriptor,
                                  void* data,
                                  std::shared_ptr<void> memory) override;
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
  absl::StatusOr<TokenBatch> ReadData(const StageAssignment& stage,
                                      MicrobatchIndex microbatch);
  std::vector<TensorRef> RunForward(const StageAssignment& stage,
                                    MicrobatchIndex microbatch,
                                    std::vector<TensorRef> inputs,
                                    const TokenBatch& batch);
  // The model's outputs. Null graph: autograd is off and nothing is kept.
  Tensors RunModel(const StageAssignment& stage, Tensors inputs,
                   const TokenBatch& batch, MicrobatchGraph* graph);
  void ListKeptInputs(std::vector<HeldBytes>* held) const;
  // With memory.recompute: the forward that F left out, before B or I.
  absl::Status Recompute(const StageAssignment& stage,
                         MicrobatchIndex microbatch);
  std::vector<TensorRef> KeepOutputs(const Key& key, Tensors outputs,
                                     OutputPlacement::Call* call,
                                     MicrobatchGraph* graph);
  OutputPlacement* PlacementOf(ActionKind kind, StageIndex stage);
  // Detached, in memory from which they can leave: the slot of the call, if
  // they were produced there.
  static std::vector<TensorRef> ReadyForWire(const Key& key, Tensors* outputs,
                                             OutputPlacement::Call* call);
  void KeepLoss(MicrobatchIndex microbatch, const Tensors& outputs);
  // B or I.
  absl::StatusOr<std::vector<TensorRef>> RunBackward(
      const Action& action, std::vector<TensorRef> output_gradients);
  // What arrived, and the loss's own.
  Tensors OutputGradients(const StageAssignment& stage,
                          std::vector<TensorRef> received) const;
  absl::StatusOr<at::Tensor> TiedGradient(const StageParameter* parameter,
                                          absl::string_view call) const;
  void UseThreadsHere();
  std::vector<MicrobatchLoss> Losses() const;

  const at::Device device_;
  DataSource* const data_;
  DataSource* evaluation_data_ = nullptr;  // of the present evaluation
  const job::TrainingSpec training_;
  const std::vector<StageAssignment> stages_;
  const bool recompute_;
  StepProtocol protocol_;
  std::map<StageIndex, std::unique_ptr<StageModel>> models_;
  std::unique_ptr<ParameterStore> parameters_;
  std::map<Key, MicrobatchGraph> graphs_;
  // With memory.recompute: what a forward can be run from again.
  std::map<Key, Tensors> kept_inputs_;
  std::map<std::pair<ActionKind, StageIndex>, OutputPlacement> placements_;
  OutputPlacement unused_;             // an evaluation's outputs are copied
  std::optional<OutputSlot> offered_;  // for the next call's output
  std::map<MicrobatchIndex, double> losses_;
};

StepProtocol::Options TorchEngine::ProtocolOptions(
    const EngineOptions& options) {
  StepProtocol::Options protocol;
  protocol.stages = options.stages;
  protocol.microbatches = options.spec.training.microbatches;
  return protocol;
}

absl::Status TorchEngine::Build(const EngineOptions& options,
                                const StageModelFactory& factory) {
  std::vector<StageParameter*> parameters;
  const memory::ScopedTag tag(PlainTag(memory::Category::kWorkspace));
  for (const StageAssignment& stage : options.stages) {
    SC_ASSIGN_OR_RETURN(models_[stage.stage], factory(options.spec, stage));
    for (StageParameter* parameter : models_[stage.stage]->parameters()) {
      parameters.push_back(parameter);
    }
  }
  UseThreadsHere();
  return CatchTorch("building the stages", [&] {
    parameters_ =
        std::make_unique<ParameterStore>(training_, device_, parameters);
    // They may hold a checkpoint's files.
    for (StageParameter* parameter : parameters) parameter->initialise = {};
    return absl::OkStatus();
  });
}

// OpenMP keeps the number of threads per calling thread, and another engine may
// have set it in between.
void TorchEngine::UseThreadsHere() {
  const int threads = static_cast<int>(training_.threads);
  if (at::get_num_threads() != threads) at::set_num_threads(threads);
}

absl::StatusOr<TensorRef> TorchEngine::Adopt(const TensorDescriptor& descriptor,
                                             void* data,
                                             std::shared_ptr<void> memory) {
  return CatchTorch("received tensor", [&]() -> absl::StatusOr<TensorRef> {
    SC_ASSIGN_OR_RETURN(at::Tensor tensor,
                        AdoptMemory(descriptor, data, std::move(memory)));
    return std::make_shared<TorchTensor>(std::move(tensor));
  });
}

absl::Status TorchEngine::BeginStep(StepIndex step, int64_t target_tokens) {
  SC_RETURN_IF_ERROR(protocol_.Begin(step, target_tokens));
  graphs_.clear();
  kept_inputs_.clear();
  losses_.clear();
  UseThreadsHere();
  return CatchTorch(absl::StrCat("step ", step.value()), [this] {
    parameters_->ZeroGradients();
    return absl::OkStatus();
  });
}

absl::StatusOr<TokenBatch> TorchEngine::ReadData(const StageAssignment& stage,
                                                 MicrobatchIndex microbatch) {
  if (!stage.first && !stage.last) return TokenBatch();
  return protocol_.evaluating()
             ? evaluation_data_->Read(StepIndex(0), microbatch)
             : data_->Read(protocol_.step(), microbatch);
}

absl::StatusOr<std::vector<TensorRef>> TorchEngine::Forward(
    StageIndex stage, MicrobatchIndex microbatch,
    std::vector<TensorRef> inputs) {
  const Action action = Act(ActionKind::kForward, stage, microbatch);
  SC_RETURN_IF_ERROR(protocol_.Check(action, inputs.size()));
  SC_ASSIGN_OR_RETURN(const StageAssignment* const held, protocol_.Find(stage));
  SC_ASSIGN_OR_RETURN(const TokenBatch batch, ReadData(*held, microbatch));
  return CatchTorch(
      protocol_.Place(stage, microbatch),
      [&]() -> absl::StatusOr<std::vector<TensorRef>> {
        const memory::ScopedTag tag(ActivationTag(stage, microbatch));
        std::vector<TensorRef> outputs =
            RunForward(*held, microbatch, std::move(inputs), batch);
        protocol_.Record(action);
        return outputs;
      });
}

std::vector<TensorRef> TorchEngine::RunForward(const StageAssignment& stage,
                                               MicrobatchIndex microbatch,
                                               std::vector<TensorRef> inputs,
                                               const TokenBatch& batch) {
  const Key key(stage.stage, microbatch);
  const bool training = !protocol_.evaluating();
  Tensors received = TensorsOf(inputs);
  // From here on only the model and what autograd saves hold the inputs.
  inputs.clear();
  MicrobatchGraph graph;
  if (training && recompute_) kept_inputs_[key] = received;
  OutputPlacement::Call call(
      training ? PlacementOf(ActionKind::kForward, stage.stage) : &unused_,
      std::exchange(offered_, std::nullopt));
  Tensors outputs = RunModel(stage, std::move(received), batch,
                             training && !recompute_ ? &graph : nullptr);
  call.Stop();
  if (stage.last) KeepLoss(microbatch, outputs);
  std::vector<TensorRef> kept =
      KeepOutputs(key, std::move(outputs), &call, &graph);
  if (training && !recompute_) graphs_[key] = std::move(graph);
  if (stage.last) kept.clear();
  return kept;
}

Tensors TorchEngine::RunModel(const StageAssignment& stage, Tensors inputs,
                              const TokenBatch& batch, MicrobatchGraph* graph) {
  const at::AutoGradMode grad_mode(graph != nullptr);
  Tensors seen;
  for (at::Tensor& input : inputs) {
    seen.push_back(graph != nullptr ? graph->MarkInput(input) : input);
    input.reset();
  }
  if (stage.first) seen.push_back(CopyTokens(batch.inputs, batch, device_));
  at::Tensor targets;
  if (stage.last) targets = CopyTokens(batch.targets, batch, device_);
  return models_[stage.stage]->Forward(std::move(seen), targets);
}

// The same kernels over the same bytes: the same bits.
absl::Status TorchEngine::Recompute(const StageAssignment& stage,
                                    MicrobatchIndex microbatch) {
  SC_ASSIGN_OR_RETURN(const TokenBatch batch, ReadData(stage, microbatch));
  const auto kept = kept_inputs_.find(Key(stage.stage, microbatch));
  MicrobatchGraph graph;
  Tensors outputs = RunModel(stage, std::move(kept->second), batch, &graph);
  kept_inputs_.erase(kept);
  for (const at::Tensor& output : outputs) graph.KeepOutput(output);
  graphs_[Key(stage.stage, microbatch)] = std::move(graph);
  return absl::OkStatus();
}

std::vector<TensorRef> TorchEngine::KeepOutputs(const Key& key, Tensors outputs,
                                                OutputPlacement::Call* call,
                                                MicrobatchGraph* graph) {
  for (const at::Tensor& output : outputs) graph->KeepOutput(output);
  return ReadyForWire(key, &outputs, call);
}

OutputPlacement* TorchEngine::PlacementOf(ActionKind kind, StageIndex stage) {
  return &placements_[{kind, stage}];
}

std::vector<TensorRef> TorchEngine::ReadyForWire(const Key& key,
                                                 Tensors* outputs,
                                                 OutputPlacement::Call* call) {
  std::vector<TensorRef> refs;
  for (at::Tensor& output : *outputs) {
    at::Tensor ready = call->HasInSlot(output)
                           ? output.detach()
                           : WireReady(output, key.first, key.second);
    output.reset();
    if (outputs->size() == 1) call->Finish(ready);
    refs.push_back(std::make_shared<TorchTensor>(std::move(ready)));
  }
  return refs;
}

void TorchEngine::KeepLoss(MicrobatchIndex microbatch, const Tensors& outputs) {
  if (outputs.size() != 1 || outputs[0].numel() != 1) {
    throw std::invalid_argument(
        "the last stage must return one loss, a scalar");
  }
  losses_[microbatch] = outputs[0].item<double>();
}

absl::StatusOr<std::vector<TensorRef>> TorchEngine::Backward(
    StageIndex stage, MicrobatchIndex microbatch,
    std::vector<TensorRef> output_gradients) {
  return RunBackward(Act(ActionKind::kBackward, stage, microbatch),
                     std::move(output_gradients));
}

absl::StatusOr<std::vector<TensorRef>> TorchEngine::BackwardInput(
    StageIndex stage, MicrobatchIndex microbatch,
    std::vector<TensorRef> output_gradients) {
  return RunBackward(Act(ActionKind::kBackwardInput, stage, microbatch),
                     std::move(output_gradients));
}

absl::StatusOr<std::vector<TensorRef>> TorchEngine::RunBackward(
    const Action& action, std::vector<TensorRef> output_gradients) {
  SC_RETURN_IF_ERROR(protocol_.Check(action, output_gradients.size()));
  SC_ASSIGN_OR_RETURN(const StageAssignment* const held,
                      protocol_.Find(action.stage));
  const std::string place = protocol_.Place(action.stage, action.microbatch);
  return CatchTorch(place, [&]() -> absl::StatusOr<std::vector<TensorRef>> {
    const memory::ScopedTag tag(ActivationTag(action.stage, action.microbatch));
    if (recompute_) {
      SC_RETURN_IF_ERROR(Recompute(*held, action.microbatch));
    }
    const auto graph = graphs_.find(Key(action.stage, action.microbatch));
    Tensors gradients =
        OutputGradients(*held, std::exchange(output_gradients, {}));
    Tensors caught;
    OutputPlacement::Call call(PlacementOf(action.kind, action.stage),
                               std::exchange(offered_, std::nullopt));
    if (action.kind == ActionKind::kBackward) {
      caught = graph->second.Backward(std::move(gradients));
      graphs_.erase(graph);
    } else {
      caught = graph->second.BackwardInput(std::move(gradients));
    }
    call.Stop();
    std::vector<TensorRef> input_gradients =
        ReadyForWire(Key(action.stage, action.microbatch), &caught, &call);
    protocol_.Record(action);
    return input_gradients;
  });
}

Tensors TorchEngine::OutputGradients(const StageAssignment& stage,
                                     std::vector<TensorRef> received) const {
  Tensors gradients = TensorsOf(received);
  if (stage.last) {
    // Scaled here and not in the loss: the mean over the step's tokens.
    gradients.push_back(
        at::full({}, 1.0 / static_cast<double>(protocol_.target_tokens()),
                 at::TensorOptions().dtype(at::kFloat).device(device_)));
  }
  return gradients;
}

absl::Status TorchEngine::BackwardWeight(StageIndex stage,
                                         MicrobatchIndex microbatch) {
  const Action action = Act(ActionKind::kBackwardWeight, stage, microbatch);
  SC_RETURN_IF_ERROR(protocol_.Check(action, 0));
  return CatchTorch(protocol_.Place(stage, microbatch), [&] {
    const memory::ScopedTag tag(ActivationTag(stage, microbatch));
    const auto graph = graphs_.find(Key(stage, microbatch));
    graph->second.BackwardWeight();
    graphs_.erase(graph);
    protocol_.Record(action);
    return absl::OkStatus();
  });
}

// With memory.recompute: inputs that another stage of this worker made.
void TorchEngine::ListKeptInputs(std::vector<HeldBytes>* held) const {
  for (const auto& [key, inputs] : kept_inputs_) {
    HeldBytes entry;
    entry.stage = key.first;
    entry.microbatch = key.second;
    entry.op = "StageInput";
    for (const at::Tensor& input : inputs) {
      SavedTensor saved;
      saved.storage = StorageIdentity(input);
      saved.bytes = static_cast<int64_t>(input.storage().nbytes());
      saved.own = InOwnMemory(input);
      if (!IsActivation(saved)) continue;
      ++entry.tensors;
      entry.bytes += saved.bytes;
    }
    if (entry.tensors > 0) held->push_back(std::move(entry));
  }
}

std::vector<HeldBytes> TorchEngine::ListHeld() {
  std::vector<HeldBytes> held;
  ListKeptInputs(&held);
  // An output that the next stage of this worker has saved is seen twice.
  std::set<const void*> seen;
  for (const auto& [key, graph] : graphs_) {
    std::map<std::string, HeldBytes> by_op;
    for (const SavedTensor& saved : graph.Saved()) {
      if (!IsActivation(saved) || !seen.insert(saved.storage).second) continue;
      HeldBytes& entry = by_op[saved.op];
      entry.stage = key.first;
      entry.microbatch = key.second;
      entry.op = saved.op;
      ++entry.tensors;
      entry.bytes += saved.bytes;
    }
    const size_t first = held.size();
    for (auto& [op, entry] : by_op) held.push_back(std::move(entry));
    std::stable_sort(held.begin() + static_cast<std::ptrdiff_t>(first),
                     held.end(), [](const HeldBytes& a, const HeldBytes& b) {
                       return a.bytes > b.bytes;
                     });
  }
  return held;
}

std::string TorchEngine::RetainingOp(StageIndex stage,
                                     MicrobatchIndex microbatch,
                                     const void* storage) {
  const auto found = graphs_.find(Key(stage, microbatch));
  if (found == graphs_.end() || storage == nullptr) return "";
  return found->second.OpThatSaved(storage);
}

absl::StatusOr<at::Tensor> TorchEngine::TiedGradient(
    const StageParameter* parameter, absl::string_view call) const {
  SC_RETURN_IF_ERROR(protocol_.CheckRunning(call));
  if (parameter == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        call, ": this worker does not hold that leaf of a tied parameter"));
  }
  return parameter->gradient;
}

absl::Status TorchEngine::ReduceTiedLocally() {
  constexpr char kCall[] = "ReduceTiedLocally";
  SC_ASSIGN_OR_RETURN(at::Tensor first,
                      TiedGradient(parameters_->tied_owner(), kCall));
  SC_ASSIGN_OR_RETURN(at::Tensor last,
                      TiedGradient(parameters_->tied_copy(), kCall));
  return CatchTorch(kCall, [&] {
    first.add_(last);
    last.copy_(first);
    return absl::OkStatus();
  });
}

absl::StatusOr<TensorRef> TorchEngine::CopyTiedGradient() {
  constexpr char kCall[] = "CopyTiedGradient";
  const StageParameter* const leaf = parameters_->tied_owner() != nullptr
                                         ? parameters_->tied_owner()
                                         : parameters_->tied_copy();
  SC_ASSIGN_OR_RETURN(const at::Tensor gradient, TiedGradient(leaf, kCall));
  return CatchTorch(kCall, [&]() -> absl::StatusOr<TensorRef> {
    const memory::ScopedTag tag(PlainTag(memory::Category::kWireSend));
    return std::make_shared<TorchTensor>(
        at::empty(gradient.sizes(), gradient.options()).copy_(gradient));
  });
}

absl::Status TorchEngine::AddTiedGradient(const TensorRef& other) {
  constexpr char kCall[] = "AddTiedGradient";
  SC_ASSIGN_OR_RETURN(at::Tensor gradient,
                      TiedGradient(parameters_->tied_owner(), kCall));
  return CatchTorch(kCall, [&] {
    if (TensorOf(other).sizes() != gradient.sizes()) {
      throw std::invalid_argument("the other gradient has another shape");
    }
    gradient.add_(TensorOf(other));
    return absl::OkStatus();
  });
}

absl::Status TorchEngine::SetTiedGradient(const TensorRef& sum) {
  constexpr char kCall[] = "SetTiedGradient";
  SC_ASSIGN_OR_RETURN(at::Tensor gradient,
                      TiedGradient(parameters_->tied_copy(), kCall));
  return CatchTorch(kCall, [&] {
    if (TensorOf(sum).sizes() != gradient.sizes()) {
      throw std::invalid_argument("the sum has another shape");
    }
    gradient.copy_(TensorOf(sum));
    return absl::OkStatus();
  });
}

absl::Status TorchEngine::BeginEvaluation(StepIndex step, DataSource* data,
                                          int64_t microbatches) {
  SC_RETURN_IF_ERROR(protocol_.BeginEvaluation(step, microbatches));
  evaluation_data_ = data;
  graphs_.clear();
  kept_inputs_.clear();
  losses_.clear();
  UseThreadsHere();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MicrobatchLoss>> TorchEngine::FinishEvaluation() {
  SC_RETURN_IF_ERROR(protocol_.Finish());
  return Losses();
}

std::vector<MicrobatchLoss> TorchEngine::Losses() const {
  std::vector<MicrobatchLoss> losses;
  for (const auto& [microbatch, loss_sum] : losses_) {
    MicrobatchLoss loss;
    loss.microbatch = microbatch;
    loss.loss_sum = loss_sum;
    losses.push_back(loss);
  }
  return losses;
}

absl::StatusOr<GradientReport> TorchEngine::FinishGradients() {
  SC_RETURN_IF_ERROR(protocol_.Finish());
  GradientReport report;
  report.losses = Losses();
  for (const MicrobatchLoss& loss : report.losses) {
    report.all_finite = report.all_finite && std::isfinite(loss.loss_sum);
  }
  return CatchTorch(
      absl::StrCat("step ", protocol_.step().value()),
      [&]() -> absl::StatusOr<GradientReport> {
        const memory::ScopedTag tag(PlainTag(memory::Category::kWorkspace));
        report.norms = parameters_->SquaredNorms();
        for (const ParameterNorm& norm : report.norms) {
          report.all_finite = report.all_finite && std::isfinite(norm.squared);
        }
        return report;
      });
}

absl::Status TorchEngine::ApplyUpdate(const UpdateOptions& options) {
  SC_RETURN_IF_ERROR(protocol_.Update(options.step));
  return CatchTorch(absl::StrCat("update of step ", options.step.value()), [&] {
    const memory::ScopedTag tag(PlainTag(memory::Category::kWorkspace));
    parameters_->Update(options);
    return absl::OkStatus();
  });
}

void TorchEngine::Drop() {
  protocol_.Drop();
  offered_.reset();
  graphs_.clear();
  kept_inputs_.clear();
  losses_.clear();
}

absl::StatusOr<std::vector<ParameterDigest>> TorchEngine::DigestParameters() {
  return CatchTorch("digest of the parameters", [this] {
    return absl::StatusOr<std::vector<ParameterDigest>>(parameters_->Digests());
  });
}

absl::StatusOr<std::vector<StageState>> TorchEngine::ExportState() {
  return CatchTorch("copy of the training state", [this] {
    const memory::ScopedTag tag(PlainTag(memory::Category::kOther));
    std::vector<StageState> states;
    for (const StageAssignment& stage : stages_) {
      StageState state;
      state.stage = stage;
      parameters_->Export(models_[stage.stage]->parameters(), &state);
      states.push_back(std::move(state));
    }
    return absl::StatusOr<std::vector<StageState>>(std::move(states));
  });
}

absl::Status TorchEngine::ImportParameters(const StateReader& read) {
  return CatchTorch("loading the parameters", [&] {
    const memory::ScopedTag tag(PlainTag(memory::Category::kWorkspace));
    return parameters_->ImportValues(read);
  });
}

absl::Status TorchEngine::ImportOptimizer(const StateReader& read) {
  return CatchTorch("loading the optimizer's state", [&] {
    const memory::ScopedTag tag(PlainTag(memory::Category::kWorkspace));
    return parameters_->ImportOptimizer(read);
  });
}

absl::Status CheckSupported(const job::TrainingSpec& training,
                            const at::Device& device) {
  if (!device.is_cpu()) {
    return absl::UnimplementedError(
        absl::StrCat("training on device ", device.str(),
                     " is not supported yet; try device cpu"));
  }
  if (training.precision != job::Precision::kFloat32) {
    return absl::UnimplementedError(
        "this training.precision is not supported yet; try \"float32\"");
  }
  if (training.threads < 1) {
    return absl::InvalidArgumentError("training.threads must be at least 1");
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const EngineOptions& options) {
  for (const StageAssignment& stage : options.stages) {
    if ((stage.first || stage.last) && options.data == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", stage.stage.value(), " needs a data source"));
    }
  }
  return absl::OkStatus();
}

// What must not differ between workers of one job.
void MakeDeterministic() {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // It would fill every at::empty with NaN, at a price.
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace

absl::Status InitTorch(const TorchOptions& options) {
  SC_ASSIGN_OR_RETURN(const at::Device device, ParseDevice(options.device));
  return CatchTorch("starting torch", [&]() -> absl::Status {
    InstallCpuAllocator();
    KeepFreedMemory();
    SC_RETURN_IF_ERROR(LoadDevice(device, options.cuda_library));
    MakeDeterministic();
    return absl::OkStatus();
  });
}

std::string TorchVersion() { return TORCH_VERSION; }

absl::StatusOr<std::unique_ptr<StageEngine>> NewTorchEngine(
    const TorchOptions& torch, const EngineOptions& options) {
  if (!CpuAllocatorInstalled()) {
    return absl::FailedPreconditionError(
        "InitTorch must come before the first engine");
  }
  SC_ASSIGN_OR_RETURN(const at::Device device, ParseDevice(torch.device));
  SC_RETURN_IF_ERROR(CheckSupported(options.spec.training, device));
  SC_RETURN_IF_ERROR(CheckOptions(options));
  EngineOptions chosen = options;
  chosen.spec.training.kernels =
      kernels::Resolve(options.spec.training.kernels, device.is_cpu());
  auto engine = std::make_unique<TorchEngine>(chosen, device);
  SC_RETURN_IF_ERROR(engine->Build(
      chosen, torch.model_factory ? torch.model_factory : NewStageModel));
  return engine;
}

}  // namespace stagecoach::worker
