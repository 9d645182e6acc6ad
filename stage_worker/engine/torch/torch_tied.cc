#include <ATen/ATen.h>

#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "stage_worker/engine/torch/torch_stage_engine.h"
#include "stage_worker/engine/torch/torch_status.h"
#include "stage_worker/engine/torch/torch_tensor.h"

// Of TorchEngine: the gradients of a tied parameter.
namespace stagecoach::worker {

absl::StatusOr<at::Tensor> TorchEngine::TiedGradient(
    const StageParameter* parameter, absl::string_view call) const {
  SC_RETURN_IF_ERROR(protocol_.CheckRunning(call));
  if (parameter == nullptr || !parameter->gradient.defined()) {
    return absl::FailedPreconditionError(
        absl::StrCat(call,
                     ": this worker holds no gradient of that leaf of a tied "
                     "parameter"));
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

}  // namespace stagecoach::worker
