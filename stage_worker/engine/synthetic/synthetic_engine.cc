#include "stage_worker/engine/synthetic/synthetic_engine.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "job/boundary.h"
#include "memory/category.h"
#include "stage_worker/engine/step_protocol.h"
#include "stage_worker/engine/synthetic/checksum.h"
#include "stage_worker/engine/synthetic/synthetic_parameters.h"
#include "stage_worker/engine/synthetic/synthetic_tensor.h"

namespace stagecoach::worker {
namespace {

using schedule::Action;
using schedule::ActionKind;
using TensorPtr = std::shared_ptr<SyntheticTensor>;

Action Act(ActionKind kind, StageIndex stage, MicrobatchIndex microbatch) {
  Action action;
  action.kind = kind;
  action.stage = stage;
  action.microbatch = microbatch;
  return action;
}

memory::Tag ActivationOf(StageIndex stage, MicrobatchIndex microbatch) {
  memory::Tag tag;
  tag.category = memory::Category::kActivation;
  tag.stage = stage;
  tag.microbatch = microbatch;
  return tag;
}

// What a stage keeps of a microbatch between its forward and its backward.
struct Kept {
  TensorPtr input;
  std::vector<TensorRef> retained;  // outputs of a retaining stage
  uint64_t key = 0;
  uint64_t weight_gradient = 0;  // between I and W
};

class SyntheticEngine final : public StageEngine {
 public:
  SyntheticEngine(const SyntheticOptions& synthetic,
                  memory::AccountingAllocator* allocator,
                  const EngineOptions& options);
  absl::Status Build();

  absl::StatusOr<TensorRef> Adopt(const TensorDescriptor& descriptor,
                                  void* data,
                                  std::shared_ptr<void> memory) override;
  absl::Status BeginStep(StepIndex step, int64_t target_tokens) override;
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

  absl::Status Before(const Action& action, size_t tensors);
  absl::StatusOr<TokenBatch> ReadData(const StageAssignment& stage,
                                      MicrobatchIndex microbatch);
  absl::StatusOr<TensorPtr> NewBoundary(StageIndex stage,
                                        MicrobatchIndex microbatch);
  absl::StatusOr<TensorPtr> CheckBoundary(const std::vector<TensorRef>& tensors,
                                          const std::string& place) const;
  absl::StatusOr<TensorPtr> InputOf(const StageAssignment& stage,
                                    MicrobatchIndex microbatch,
                                    const std::vector<TensorRef>& inputs,
                                    const TokenBatch& batch);
  uint64_t KeyOf(const StageAssignment& stage,
                 MicrobatchIndex microbatch) const;
  void KeepLoss(MicrobatchIndex microbatch, const TensorPtr& output,
                const TokenBatch& batch);
  TensorRef KeepOutput(StageIndex stage, TensorPtr output, Kept* kept);
  absl::StatusOr<std::vector<TensorRef>> InputGradient(
      const Action& action, const std::vector<TensorRef>& output_gradients);
  absl::Status CheckGradient(const Key& key, const Kept& kept,
                             const TensorPtr& gradient) const;
  void AddWeightGradient(const Action& action);
  std::vector<MicrobatchLoss> Losses() const;

  const SyntheticOptions synthetic_;
  memory::AccountingAllocator* const allocator_;
  const EngineOptions options_;
  const TensorDescriptor boundary_;
  StepProtocol protocol_;
  DataSource* evaluation_data_ = nullptr;
  SyntheticParameters parameters_;
  std::map<Key, Kept> kept_;
  std::map<MicrobatchIndex, double> losses_;
  int outputs_made_ = 0;
  std::vector<TensorRef> leaked_;
};

StepProtocol::Options ProtocolOptions(const EngineOptions& options) {
  StepProtocol::Options protocol;
  protocol.stages = options.stages;
  protocol.microbatches = options.spec.training.microbatches;
  return protocol;
}

TensorDescriptor Boundary(const SyntheticOptions& synthetic,
                          const EngineOptions& options) {
  const job::Boundary boundary = job::BoundaryOf(options.spec);
  const bool as_specified = synthetic.boundary_bytes <= 0;
  if (as_specified && boundary.tensors.size() == 1) return boundary.tensors[0];
  TensorDescriptor descriptor;
  descriptor.dtype = DType::kUInt8;
  descriptor.shape = {as_specified ? boundary.bytes()
                                   : synthetic.boundary_bytes};
  return descriptor;
}

SyntheticEngine::SyntheticEngine(const SyntheticOptions& synthetic,
                                 memory::AccountingAllocator* allocator,
                                 const EngineOptions& options)
    : synthetic_(synthetic),
      allocator_(allocator),
      options_(options),
      boundary_(Boundary(synthetic, options)),
      protocol_(ProtocolOptions(options)),
      parameters_(allocator, options_) {}

absl::Status SyntheticEngine::Build() {
  if (boundary_.bytes() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the boundary between stages, ", boundary_.ToString(),
                     ", has no bytes"));
  }
  return parameters_.Build();
}

absl::StatusOr<TensorRef> SyntheticEngine::Adopt(
    const TensorDescriptor& descriptor, void* data,
    std::shared_ptr<void> memory) {
  SC_ASSIGN_OR_RETURN(
      TensorRef tensor,
      SyntheticTensor::Adopt(descriptor, data, std::move(memory)));
  return tensor;
}

absl::Status SyntheticEngine::BeginStep(StepIndex step, int64_t target_tokens) {
  SC_RETURN_IF_ERROR(protocol_.Begin(step, target_tokens));
  kept_.clear();
  losses_.clear();
  parameters_.ZeroGradients();
  return absl::OkStatus();
}

absl::Status SyntheticEngine::Before(const Action& action, size_t tensors) {
  SC_RETURN_IF_ERROR(protocol_.Check(action, tensors));
  if (!synthetic_.before_action) return absl::OkStatus();
  return synthetic_.before_action(action);
}

absl::StatusOr<TokenBatch> SyntheticEngine::ReadData(
    const StageAssignment& stage, MicrobatchIndex microbatch) {
  const bool evaluating = protocol_.evaluating();
  DataSource* const data = evaluating ? evaluation_data_ : options_.data;
  if (data == nullptr || (!stage.first && !stage.last)) return TokenBatch();
  return data->Read(evaluating ? StepIndex(0) : protocol_.step(), microbatch);
}

absl::StatusOr<TensorPtr> SyntheticEngine::NewBoundary(
    StageIndex stage, MicrobatchIndex microbatch) {
  auto tensor = SyntheticTensor::Allocate(
      boundary_, ActivationOf(stage, microbatch), allocator_);
  if (tensor.ok()) return tensor;
  return Annotate(tensor.status(), protocol_.Place(stage, microbatch));
}

absl::StatusOr<TensorPtr> SyntheticEngine::CheckBoundary(
    const std::vector<TensorRef>& tensors, const std::string& place) const {
  auto tensor = tensors.size() == 1
                    ? std::dynamic_pointer_cast<SyntheticTensor>(tensors[0])
                    : nullptr;
  if (tensor != nullptr && tensor->size_bytes() == boundary_.bytes()) {
    return tensor;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      place, ": needs one tensor of ", boundary_.bytes(), " bytes, has ",
      tensor == nullptr ? "something else" : tensor->descriptor().ToString()));
}

uint64_t ChecksumOf(const std::vector<int64_t>& tokens) {
  return Checksum(reinterpret_cast<const uint8_t*>(tokens.data()),
                  tokens.size() * sizeof(int64_t));
}

uint64_t SyntheticEngine::KeyOf(const StageAssignment& stage,
                                MicrobatchIndex microbatch) const {
  uint64_t key = Mix(static_cast<uint64_t>(stage.stage.value()),
                     static_cast<uint64_t>(protocol_.step().value()));
  key = Mix(key, static_cast<uint64_t>(microbatch.value()));
  return parameters_.MixedInto(key, stage);
}

// The first stage makes its input from the samples.
absl::StatusOr<TensorPtr> SyntheticEngine::InputOf(
    const StageAssignment& stage, MicrobatchIndex microbatch,
    const std::vector<TensorRef>& inputs, const TokenBatch& batch) {
  if (!stage.first) {
    return CheckBoundary(inputs, protocol_.Place(stage.stage, microbatch));
  }
  SC_ASSIGN_OR_RETURN(TensorPtr input, NewBoundary(stage.stage, microbatch));
  Stir(input->bytes(), input->size_bytes(), ChecksumOf(batch.inputs),
       input->bytes());
  return input;
}

void SyntheticEngine::KeepLoss(MicrobatchIndex microbatch,
                               const TensorPtr& output,
                               const TokenBatch& batch) {
  const uint64_t number = Mix(Checksum(output->bytes(), output->size_bytes()),
                              ChecksumOf(batch.targets));
  // Without data, as if there were a full microbatch.
  const job::JobSpec& spec = options_.spec;
  const int64_t tokens =
      batch.targets.empty()
          ? spec.training.microbatch_size * spec.data.sequence_length
          : static_cast<int64_t>(batch.targets.size());
  // A mean between 0 and 8, where the loss of a byte model lies.
  losses_[microbatch] = 8 * ToUnit(number) * static_cast<double>(tokens);
}

TensorRef SyntheticEngine::KeepOutput(StageIndex stage, TensorPtr output,
                                      Kept* kept) {
  const auto& retaining = synthetic_.retaining_stages;
  if (std::find(retaining.begin(), retaining.end(), stage) != retaining.end()) {
    kept->retained.push_back(output);
  }
  if (++outputs_made_ == synthetic_.leak_output_at) leaked_.push_back(output);
  return output;
}

absl::StatusOr<std::vector<TensorRef>> SyntheticEngine::Forward(
    StageIndex stage, MicrobatchIndex microbatch,
    std::vector<TensorRef> inputs) {
  const Action action = Act(ActionKind::kForward, stage, microbatch);
  SC_RETURN_IF_ERROR(Before(action, inputs.size()));
  SC_ASSIGN_OR_RETURN(const StageAssignment* const held, protocol_.Find(stage));
  SC_ASSIGN_OR_RETURN(const TokenBatch batch, ReadData(*held, microbatch));
  Kept kept;
  SC_ASSIGN_OR_RETURN(kept.input, InputOf(*held, microbatch, inputs, batch));
  kept.key = KeyOf(*held, microbatch);
  SC_ASSIGN_OR_RETURN(TensorPtr output, NewBoundary(stage, microbatch));
  Stir(kept.input->bytes(), kept.input->size_bytes(), kept.key,
       output->bytes());
  std::vector<TensorRef> outputs;
  if (held->last) {
    KeepLoss(microbatch, output, batch);
  } else {
    outputs.push_back(KeepOutput(stage, std::move(output), &kept));
  }
  if (!protocol_.evaluating()) kept_[{stage, microbatch}] = std::move(kept);
  protocol_.Record(action);
  return outputs;
}

// A gradient stands for the output it belongs to: undoing the forward must give
// the input, which is still here.
absl::Status SyntheticEngine::CheckGradient(const Key& key, const Kept& kept,
                                            const TensorPtr& gradient) const {
  if (options_.made_up_inputs) return absl::OkStatus();
  std::vector<uint8_t> undone(gradient->size_bytes());
  Invert(gradient->bytes(), undone.size(), undone.data());
  Unstir(undone.data(), undone.size(), kept.key, undone.data());
  if (std::memcmp(undone.data(), kept.input->data(), undone.size()) == 0) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      protocol_.Place(key.first, key.second),
      ": the gradient does not belong to this output, or the input was "
      "overwritten"));
}

absl::StatusOr<std::vector<TensorRef>> SyntheticEngine::InputGradient(
    const Action& action, const std::vector<TensorRef>& output_gradients) {
  SC_ASSIGN_OR_RETURN(const StageAssignment* const held,
                      protocol_.Find(action.stage));
  const Key key(action.stage, action.microbatch);
  Kept& kept = kept_[key];
  if (!held->last) {
    SC_ASSIGN_OR_RETURN(const TensorPtr gradient,
                        CheckBoundary(output_gradients,
                                      protocol_.Place(key.first, key.second)));
    SC_RETURN_IF_ERROR(CheckGradient(key, kept, gradient));
  }
  std::vector<TensorRef> input_gradients;
  if (!held->first) {
    SC_ASSIGN_OR_RETURN(TensorPtr gradient, NewBoundary(key.first, key.second));
    Invert(kept.input->bytes(), kept.input->size_bytes(), gradient->bytes());
    input_gradients.push_back(std::move(gradient));
  }
  kept.weight_gradient =
      Mix(kept.key, Checksum(kept.input->bytes(), kept.input->size_bytes()));
  kept.input = nullptr;
  kept.retained.clear();
  return input_gradients;
}

void SyntheticEngine::AddWeightGradient(const Action& action) {
  const Key key(action.stage, action.microbatch);
  parameters_.AddGradient(*protocol_.Find(action.stage).value(),
                          kept_[key].weight_gradient);
  kept_.erase(key);
}

absl::StatusOr<std::vector<TensorRef>> SyntheticEngine::Backward(
    StageIndex stage, MicrobatchIndex microbatch,
    std::vector<TensorRef> output_gradients) {
  const Action action = Act(ActionKind::kBackward, stage, microbatch);
  SC_RETURN_IF_ERROR(Before(action, output_gradients.size()));
  SC_ASSIGN_OR_RETURN(std::vector<TensorRef> input_gradients,
                      InputGradient(action, output_gradients));
  AddWeightGradient(action);
  protocol_.Record(action);
  return input_gradients;
}

absl::StatusOr<std::vector<TensorRef>> SyntheticEngine::BackwardInput(
    StageIndex stage, MicrobatchIndex microbatch,
    std::vector<TensorRef> output_gradients) {
  const Action action = Act(ActionKind::kBackwardInput, stage, microbatch);
  SC_RETURN_IF_ERROR(Before(action, output_gradients.size()));
  SC_ASSIGN_OR_RETURN(std::vector<TensorRef> input_gradients,
                      InputGradient(action, output_gradients));
  protocol_.Record(action);
  return input_gradients;
}

absl::Status SyntheticEngine::BackwardWeight(StageIndex stage,
                                             MicrobatchIndex microbatch) {
  const Action action = Act(ActionKind::kBackwardWeight, stage, microbatch);
  SC_RETURN_IF_ERROR(Before(action, 0));
  AddWeightGradient(action);
  protocol_.Record(action);
  return absl::OkStatus();
}

std::vector<HeldBytes> SyntheticEngine::ListHeld() {
  std::vector<HeldBytes> held;
  for (const auto& [key, kept] : kept_) {
    // What was received lies in the receive pool.
    const bool own = kept.input != nullptr && kept.input->watch() != nullptr;
    HeldBytes entry;
    entry.stage = key.first;
    entry.microbatch = key.second;
    entry.op = "Synthetic";
    entry.tensors = (own ? 1 : 0) + static_cast<int64_t>(kept.retained.size());
    entry.bytes = entry.tensors * static_cast<int64_t>(boundary_.bytes());
    if (entry.tensors > 0) held.push_back(std::move(entry));
  }
  return held;
}

std::string SyntheticEngine::RetainingOp(StageIndex stage,
                                         MicrobatchIndex microbatch,
                                         const void* storage) {
  const auto kept = kept_.find({stage, microbatch});
  if (kept == kept_.end()) return "";
  for (const TensorRef& output : kept->second.retained) {
    if (output->storage() == storage) return "TanhBackward0";
  }
  return "";
}

absl::Status SyntheticEngine::ReduceTiedLocally() {
  SC_RETURN_IF_ERROR(protocol_.CheckRunning("ReduceTiedLocally"));
  return parameters_.ReduceTiedLocally();
}

absl::StatusOr<TensorRef> SyntheticEngine::CopyTiedGradient() {
  SC_RETURN_IF_ERROR(protocol_.CheckRunning("CopyTiedGradient"));
  return parameters_.CopyTiedGradient();
}

absl::Status SyntheticEngine::AddTiedGradient(const TensorRef& other) {
  SC_RETURN_IF_ERROR(protocol_.CheckRunning("AddTiedGradient"));
  return parameters_.AddTiedGradient(other);
}

absl::Status SyntheticEngine::SetTiedGradient(const TensorRef& sum) {
  SC_RETURN_IF_ERROR(protocol_.CheckRunning("SetTiedGradient"));
  return parameters_.SetTiedGradient(sum);
}

absl::Status SyntheticEngine::BeginEvaluation(StepIndex step, DataSource* data,
                                              int64_t microbatches) {
  SC_RETURN_IF_ERROR(protocol_.BeginEvaluation(step, microbatches));
  evaluation_data_ = data;
  kept_.clear();
  losses_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MicrobatchLoss>>
SyntheticEngine::FinishEvaluation() {
  SC_RETURN_IF_ERROR(protocol_.Finish());
  return Losses();
}

std::vector<MicrobatchLoss> SyntheticEngine::Losses() const {
  std::vector<MicrobatchLoss> losses;
  for (const auto& [microbatch, loss_sum] : losses_) {
    MicrobatchLoss loss;
    loss.microbatch = microbatch;
    loss.loss_sum = loss_sum;
    losses.push_back(loss);
  }
  return losses;
}

absl::StatusOr<GradientReport> SyntheticEngine::FinishGradients() {
  SC_RETURN_IF_ERROR(protocol_.Finish());
  GradientReport report;
  report.losses = Losses();
  report.norms = parameters_.Norms();
  return report;
}

absl::Status SyntheticEngine::ApplyUpdate(const UpdateOptions& options) {
  SC_RETURN_IF_ERROR(protocol_.Update(options.step));
  parameters_.Update(options);
  return absl::OkStatus();
}

void SyntheticEngine::Drop() {
  protocol_.Drop();
  kept_.clear();
  losses_.clear();
}

absl::StatusOr<std::vector<ParameterDigest>>
SyntheticEngine::DigestParameters() {
  return parameters_.Digests();
}

absl::StatusOr<std::vector<StageState>> SyntheticEngine::ExportState() {
  return parameters_.ExportState();
}

absl::Status SyntheticEngine::ImportParameters(const StateReader& read) {
  return parameters_.ImportParameters(read);
}

absl::Status SyntheticEngine::ImportOptimizer(const StateReader& read) {
  return parameters_.ImportOptimizer(read);
}

}  // namespace

absl::StatusOr<std::unique_ptr<StageEngine>> NewSyntheticEngine(
    const SyntheticOptions& synthetic, memory::AccountingAllocator* allocator,
    const EngineOptions& options) {
  auto engine =
      std::make_unique<SyntheticEngine>(synthetic, allocator, options);
  SC_RETURN_IF_ERROR(engine->Build());
  return engine;
}

}  // namespace stagecoach::worker
