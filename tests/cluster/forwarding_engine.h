#ifndef STAGECOACH_TESTS_CLUSTER_FORWARDING_ENGINE_H_
#define STAGECOACH_TESTS_CLUSTER_FORWARDING_ENGINE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::testing {

// Passes every call on to another engine; tests override what they disturb.
class ForwardingEngine : public worker::StageEngine {
 public:
  explicit ForwardingEngine(std::unique_ptr<worker::StageEngine> inner)
      : inner_(std::move(inner)) {}

  absl::StatusOr<worker::TensorRef> Adopt(
      const TensorDescriptor& descriptor, void* data,
      std::shared_ptr<void> memory) override {
    return inner_->Adopt(descriptor, data, std::move(memory));
  }
  void UseLossScale(double scale) override { inner_->UseLossScale(scale); }
  absl::Status BeginStep(StepIndex step, int64_t target_tokens) override {
    return inner_->BeginStep(step, target_tokens);
  }
  void OfferOutput(worker::OutputSlot slot) override {
    inner_->OfferOutput(std::move(slot));
  }
  absl::StatusOr<std::vector<worker::TensorRef>> Forward(
      StageIndex stage, MicrobatchIndex microbatch,
      std::vector<worker::TensorRef> inputs) override {
    return inner_->Forward(stage, microbatch, std::move(inputs));
  }
  absl::StatusOr<std::vector<worker::TensorRef>> Backward(
      StageIndex stage, MicrobatchIndex microbatch,
      std::vector<worker::TensorRef> output_gradients) override {
    return inner_->Backward(stage, microbatch, std::move(output_gradients));
  }
  absl::StatusOr<std::vector<worker::TensorRef>> BackwardInput(
      StageIndex stage, MicrobatchIndex microbatch,
      std::vector<worker::TensorRef> output_gradients) override {
    return inner_->BackwardInput(stage, microbatch,
                                 std::move(output_gradients));
  }
  absl::Status BackwardWeight(StageIndex stage,
                              MicrobatchIndex microbatch) override {
    return inner_->BackwardWeight(stage, microbatch);
  }
  std::vector<worker::HeldBytes> ListHeld() override {
    return inner_->ListHeld();
  }
  std::string RetainingOp(StageIndex stage, MicrobatchIndex microbatch,
                          const void* storage) override {
    return inner_->RetainingOp(stage, microbatch, storage);
  }
  absl::Status ReduceTiedLocally() override {
    return inner_->ReduceTiedLocally();
  }
  absl::StatusOr<worker::TensorRef> CopyTiedGradient() override {
    return inner_->CopyTiedGradient();
  }
  absl::Status AddTiedGradient(const worker::TensorRef& other) override {
    return inner_->AddTiedGradient(other);
  }
  absl::Status SetTiedGradient(const worker::TensorRef& sum) override {
    return inner_->SetTiedGradient(sum);
  }
  absl::Status BeginEvaluation(StepIndex step, worker::DataSource* data,
                               int64_t microbatches) override {
    return inner_->BeginEvaluation(step, data, microbatches);
  }
  absl::StatusOr<std::vector<worker::MicrobatchLoss>> FinishEvaluation()
      override {
    return inner_->FinishEvaluation();
  }
  absl::StatusOr<worker::GradientReport> FinishGradients() override {
    return inner_->FinishGradients();
  }
  absl::Status ApplyUpdate(const worker::UpdateOptions& options) override {
    return inner_->ApplyUpdate(options);
  }
  void Drop() override { inner_->Drop(); }
  absl::StatusOr<std::vector<worker::ParameterDigest>> DigestParameters()
      override {
    return inner_->DigestParameters();
  }
  absl::StatusOr<std::vector<worker::StageState>> ExportState() override {
    return inner_->ExportState();
  }
  absl::Status ImportParameters(const worker::StateReader& read) override {
    return inner_->ImportParameters(read);
  }
  absl::Status ImportOptimizer(const worker::StateReader& read) override {
    return inner_->ImportOptimizer(read);
  }

 private:
  const std::unique_ptr<worker::StageEngine> inner_;
};

}  // namespace stagecoach::testing

#endif  // STAGECOACH_TESTS_CLUSTER_FORWARDING_ENGINE_H_
