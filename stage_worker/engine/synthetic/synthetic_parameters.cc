#include "stage_worker/engine/synthetic/synthetic_parameters.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status.h"
#include "job/model_shape.h"
#include "memory/category.h"
#include "stage_worker/engine/synthetic/checksum.h"

namespace stagecoach::worker {
namespace {

using TensorPtr = std::shared_ptr<SyntheticTensor>;

memory::Tag TagOf(memory::Category category) {
  memory::Tag tag;
  tag.category = category;
  return tag;
}

// A parameter, its gradient or its state, also on the wire.
TensorDescriptor OneNumber() {
  TensorDescriptor descriptor;
  descriptor.dtype = DType::kInt64;
  descriptor.shape = {1};
  return descriptor;
}

uint64_t Get(const TensorPtr& tensor) {
  uint64_t number = 0;
  std::memcpy(&number, tensor->data(), sizeof(number));
  return number;
}

void Set(const TensorPtr& tensor, uint64_t number) {
  std::memcpy(tensor->bytes(), &number, sizeof(number));
}

uint64_t Bits(double number) {
  uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}

StateTensor CopyOf(const std::string& name, const TensorPtr& source) {
  auto number = std::make_shared<uint64_t>(Get(source));
  StateTensor tensor;
  tensor.name = name;
  tensor.descriptor = source->descriptor();
  tensor.data = std::shared_ptr<const void>(number, number.get());
  return tensor;
}

absl::StatusOr<uint64_t> TiedNumber(const TensorRef& tensor) {
  const auto number = std::dynamic_pointer_cast<SyntheticTensor>(tensor);
  if (number == nullptr || !(number->descriptor() == OneNumber())) {
    return absl::InvalidArgumentError("not a tied gradient of this engine");
  }
  return Get(number);
}

}  // namespace

absl::StatusOr<SyntheticParameters::Leaf> SyntheticParameters::NewLeaf(
    const std::string& name, int64_t global_index) const {
  using memory::Category;
  const auto number = [this](Category category) {
    return SyntheticTensor::Allocate(OneNumber(), TagOf(category), allocator_);
  };
  Leaf leaf;
  leaf.name = name;
  leaf.global_index = global_index;
  SC_ASSIGN_OR_RETURN(leaf.value, number(Category::kParameter));
  SC_ASSIGN_OR_RETURN(leaf.gradient, number(Category::kGradient));
  SC_ASSIGN_OR_RETURN(leaf.optimizer, number(Category::kOptimizer));
  Set(leaf.optimizer, 0);
  Set(leaf.value, Mix(static_cast<uint64_t>(options_.spec.seed),
                      static_cast<uint64_t>(global_index)));
  return leaf;
}

absl::Status SyntheticParameters::Build() {
  // The tied parameter's copy begins with the owner's value.
  const auto new_tied = [this](std::unique_ptr<Leaf>* leaf) -> absl::Status {
    SC_ASSIGN_OR_RETURN(Leaf made, NewLeaf("embedding.weight", 0));
    *leaf = std::make_unique<Leaf>(std::move(made));
    return absl::OkStatus();
  };
  const bool tied = job::SumsTiedGradients(options_.spec);
  for (const StageAssignment& stage : options_.stages) {
    SC_ASSIGN_OR_RETURN(
        weights_[stage.stage],
        NewLeaf(absl::StrCat("stage.", stage.stage.value(), ".weight"),
                stage.stage.value() + 1));
    if (tied && stage.first) SC_RETURN_IF_ERROR(new_tied(&tied_owner_));
    if (tied && stage.last) SC_RETURN_IF_ERROR(new_tied(&tied_copy_));
  }
  return absl::OkStatus();
}

void SyntheticParameters::ZeroGradients() {
  for (const Leaf* leaf : Leaves()) Set(leaf->gradient, 0);
}

uint64_t SyntheticParameters::MixedInto(uint64_t key,
                                        const StageAssignment& stage) const {
  key = Mix(key, Get(weights_.at(stage.stage).value));
  if (stage.first && tied_owner_ != nullptr) {
    key = Mix(key, Get(tied_owner_->value));
  }
  if (stage.last && tied_copy_ != nullptr) {
    key = Mix(key, Get(tied_copy_->value));
  }
  return key;
}

void SyntheticParameters::AddGradient(const StageAssignment& stage,
                                      uint64_t part) {
  const TensorPtr& gradient = weights_.at(stage.stage).gradient;
  Set(gradient, Mix(Get(gradient), part));
  if (stage.first && tied_owner_ != nullptr) {
    Set(tied_owner_->gradient, Get(tied_owner_->gradient) + part);
  }
  if (stage.last && tied_copy_ != nullptr) {
    Set(tied_copy_->gradient, Get(tied_copy_->gradient) + part);
  }
}

std::vector<ParameterNorm> SyntheticParameters::Norms() const {
  std::vector<ParameterNorm> norms;
  for (const Leaf* leaf : Parameters()) {
    ParameterNorm norm;
    norm.global_index = leaf->global_index;
    norm.squared = ToUnit(Get(leaf->gradient));
    norms.push_back(norm);
  }
  return norms;
}

void SyntheticParameters::Update(const UpdateOptions& options) {
  for (const Leaf* leaf : Leaves()) {
    // The optimizer's state counts, as Adam's does.
    uint64_t value = Mix(Get(leaf->value), Get(leaf->gradient));
    value = Mix(value, Get(leaf->optimizer));
    value = Mix(value, Bits(options.clip_factor));
    value = Mix(value, Bits(options.learning_rate));
    Set(leaf->value, value);
    Set(leaf->optimizer, Mix(Get(leaf->optimizer), Get(leaf->gradient)));
  }
}

absl::StatusOr<SyntheticParameters::Leaf*> SyntheticParameters::Tied(
    bool owner, absl::string_view call) {
  Leaf* const leaf = owner ? tied_owner_.get() : tied_copy_.get();
  if (leaf != nullptr) return leaf;
  return absl::FailedPreconditionError(absl::StrCat(
      call, ": this worker does not hold that leaf of a tied parameter"));
}

absl::Status SyntheticParameters::ReduceTiedLocally() {
  SC_ASSIGN_OR_RETURN(Leaf* const first, Tied(true, "ReduceTiedLocally"));
  SC_ASSIGN_OR_RETURN(Leaf* const last, Tied(false, "ReduceTiedLocally"));
  Set(first->gradient, Get(first->gradient) + Get(last->gradient));
  Set(last->gradient, Get(first->gradient));
  return absl::OkStatus();
}

absl::StatusOr<TensorRef> SyntheticParameters::CopyTiedGradient() {
  SC_ASSIGN_OR_RETURN(Leaf* const leaf,
                      Tied(tied_owner_ != nullptr, "CopyTiedGradient"));
  SC_ASSIGN_OR_RETURN(
      TensorPtr copy,
      SyntheticTensor::Allocate(OneNumber(), TagOf(memory::Category::kWireSend),
                                allocator_));
  Set(copy, Get(leaf->gradient));
  return TensorRef(std::move(copy));
}

absl::Status SyntheticParameters::AddTiedGradient(const TensorRef& other) {
  SC_ASSIGN_OR_RETURN(Leaf* const leaf, Tied(true, "AddTiedGradient"));
  SC_ASSIGN_OR_RETURN(const uint64_t number, TiedNumber(other));
  Set(leaf->gradient, Get(leaf->gradient) + number);
  return absl::OkStatus();
}

absl::Status SyntheticParameters::SetTiedGradient(const TensorRef& sum) {
  SC_ASSIGN_OR_RETURN(Leaf* const leaf, Tied(false, "SetTiedGradient"));
  SC_ASSIGN_OR_RETURN(const uint64_t number, TiedNumber(sum));
  Set(leaf->gradient, number);
  return absl::OkStatus();
}

std::vector<ParameterDigest> SyntheticParameters::Digests() const {
  std::vector<ParameterDigest> digests;
  for (const Leaf* leaf : Parameters()) {
    Sha256 sha256;
    sha256.Update(leaf->value->data(), leaf->value->size_bytes());
    ParameterDigest digest;
    digest.name = leaf->name;
    digest.descriptor = leaf->value->descriptor();
    digest.sha256 = sha256.FinishHex();
    digests.push_back(std::move(digest));
  }
  return digests;
}

std::vector<StageState> SyntheticParameters::ExportState() const {
  std::vector<StageState> states;
  for (const StageAssignment& stage : options_.stages) {
    StageState state;
    state.stage = stage;
    const auto add = [&state](const Leaf& leaf) {
      state.parameters.push_back(CopyOf(leaf.name, leaf.value));
      state.optimizer.push_back(CopyOf(leaf.name + ".exp_avg", leaf.optimizer));
    };
    if (stage.first && tied_owner_ != nullptr) add(*tied_owner_);
    add(weights_.at(stage.stage));
    states.push_back(std::move(state));
  }
  return states;
}

absl::Status SyntheticParameters::ImportParameters(const StateReader& read) {
  for (const Leaf* leaf : Leaves()) {
    SC_RETURN_IF_ERROR(
        read(leaf->name, leaf->value->descriptor(), leaf->value->bytes()));
  }
  return absl::OkStatus();
}

absl::Status SyntheticParameters::ImportOptimizer(const StateReader& read) {
  for (const Leaf* leaf : Leaves()) {
    SC_RETURN_IF_ERROR(read(leaf->name + ".exp_avg",
                            leaf->optimizer->descriptor(),
                            leaf->optimizer->bytes()));
  }
  return absl::OkStatus();
}

std::vector<SyntheticParameters::Leaf*> SyntheticParameters::Leaves() {
  std::vector<Leaf*> leaves;
  for (auto& [stage, leaf] : weights_) leaves.push_back(&leaf);
  if (tied_owner_ != nullptr) leaves.push_back(tied_owner_.get());
  if (tied_copy_ != nullptr) leaves.push_back(tied_copy_.get());
  return leaves;
}

std::vector<const SyntheticParameters::Leaf*> SyntheticParameters::Parameters()
    const {
  std::vector<const Leaf*> leaves;
  if (tied_owner_ != nullptr) leaves.push_back(tied_owner_.get());
  for (const auto& [stage, leaf] : weights_) leaves.push_back(&leaf);
  return leaves;
}

}  // namespace stagecoach::worker
