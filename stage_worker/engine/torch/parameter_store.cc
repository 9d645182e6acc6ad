#include "stage_worker/engine/torch/parameter_store.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status.h"
#include "job/model_shape.h"
#include "memory/category.h"
#include "stage_worker/engine/torch/mapped_buffer.h"
#include "stage_worker/kernels/choice.h"
#include "stage_worker/kernels/optimizer.h"
#include "stage_worker/model/compute_type.h"

namespace stagecoach::worker {
namespace {

constexpr int64_t kAlignment = 16;  // elements

int64_t Elements(const StageParameter& parameter) {
  int64_t elements = 1;
  for (const int64_t size : parameter.shape) elements *= size;
  return elements;
}

int64_t Padded(const StageParameter& parameter) {
  return (Elements(parameter) + kAlignment - 1) / kAlignment * kAlignment;
}

bool Decays(const StageParameter* parameter) {
  return parameter->shape.size() >= 2;
}

std::vector<StageParameter*> BufferOrder(
    const job::TrainingSpec& training,
    std::vector<StageParameter*> parameters) {
  const auto part = [&training](const StageParameter* parameter) {
    if (job::IsFrozen(training, parameter->stored_name())) return 2;
    return Decays(parameter) ? 0 : 1;
  };
  std::stable_sort(parameters.begin(), parameters.end(),
                   [&part](const StageParameter* a, const StageParameter* b) {
                     return part(a) < part(b);
                   });
  return parameters;
}

std::vector<const StageParameter*> CountedInGlobalOrder(
    const std::vector<StageParameter*>& parameters) {
  std::vector<const StageParameter*> counted;
  for (const StageParameter* parameter : parameters) {
    if (!parameter->tied_copy) counted.push_back(parameter);
  }
  std::sort(counted.begin(), counted.end(),
            [](const StageParameter* a, const StageParameter* b) {
              return a->global_index < b->global_index;
            });
  return counted;
}

at::Tensor Zeros(memory::Category category, const at::Device& device,
                 at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  memory::Tag tag;
  tag.category = category;
  const memory::ScopedTag scope(tag);
  return at::zeros(shape, at::TensorOptions().dtype(type).device(device));
}

TensorDescriptor DescriptorOf(const StageParameter& parameter) {
  TensorDescriptor descriptor;
  descriptor.dtype = DType::kFloat32;
  descriptor.shape = parameter.shape;
  return descriptor;
}

// What Adam keeps of a parameter, by PyTorch's names.
std::string AverageName(const StageParameter& parameter) {
  return absl::StrCat(parameter.stored_name(), ".exp_avg");
}
std::string SquaredAverageName(const StageParameter& parameter) {
  return absl::StrCat(parameter.stored_name(), ".exp_avg_sq");
}

StateTensor CopyToHost(std::string name, const StageParameter& parameter,
                       const at::Tensor& source) {
  auto copy = std::make_shared<at::Tensor>(
      at::empty(source.sizes(), at::TensorOptions().dtype(at::kFloat))
          .copy_(source));
  StateTensor tensor;
  tensor.name = std::move(name);
  tensor.descriptor = DescriptorOf(parameter);
  tensor.data =
      std::shared_ptr<const void>(copy, copy->const_data_ptr<float>());
  return tensor;
}

absl::Status ReadInto(const StateReader& read, const std::string& name,
                      const StageParameter& parameter, at::Tensor target) {
  const TensorDescriptor descriptor = DescriptorOf(parameter);
  if (target.is_cpu()) {
    return read(name, descriptor, target.mutable_data_ptr<float>());
  }
  const at::Tensor host =
      at::empty(target.sizes(), at::TensorOptions().dtype(at::kFloat));
  SC_RETURN_IF_ERROR(read(name, descriptor, host.mutable_data_ptr<float>()));
  target.copy_(host);
  return absl::OkStatus();
}

// In double, and in pieces: a double copy of a whole embedding would be twice
// its gradient.
double SquaredNorm(const at::Tensor& gradient) {
  if (gradient.is_cpu()) {
    return kernels::SumOfSquares(gradient.const_data_ptr<float>(),
                                 gradient.numel());
  }
  constexpr int64_t kPiece = int64_t{1} << 16;
  const at::Tensor flat = gradient.view({-1});
  double sum = 0;
  for (int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const at::Tensor piece =
        flat.narrow(0, begin, std::min(kPiece, flat.numel() - begin))
            .to(at::kDouble);
    sum += at::dot(piece, piece).item<double>();
  }
  return sum;
}

}  // namespace

ParameterStore::ParameterStore(const job::TrainingSpec& training,
                               const at::Device& device,
                               std::vector<StageParameter*> parameters,
                               const std::string& optimizer_directory)
    : training_(training),
      parameters_(BufferOrder(training, std::move(parameters))),
      own_kernels_(kernels::IsOwn(training.kernels)) {
  const at::NoGradGuard no_grad;
  for (StageParameter* parameter : parameters_) {
    if (parameter->tied_copy) {
      tied_copy_ = parameter;
    } else if (parameter->tied) {
      tied_owner_ = parameter;
    }
  }
  const Sizes sizes = Measure();
  AllocateBuffers(device, sizes, optimizer_directory);
  BindViews();
  MakeRanges(sizes);
  Initialise();
}

bool ParameterStore::Frozen(const StageParameter& parameter) const {
  return job::IsFrozen(training_, parameter.stored_name());
}

ParameterStore::Sizes ParameterStore::Measure() const {
  Sizes sizes;
  for (const StageParameter* parameter : parameters_) {
    sizes.all += Padded(*parameter);
    if (Frozen(*parameter)) continue;
    sizes.trained = sizes.all;
    if (Decays(parameter)) sizes.decaying = sizes.all;
  }
  return sizes;
}

void ParameterStore::AllocateBuffers(const at::Device& device,
                                     const Sizes& sizes,
                                     const std::string& optimizer_directory) {
  values_ = Zeros(memory::Category::kParameter, device, {sizes.all});
  gradients_ = Zeros(memory::Category::kGradient, device, {sizes.trained});
  const at::ScalarType type = ScalarTypeOf(training_.precision);
  if (type != at::kFloat) {
    rounded_ = Zeros(memory::Category::kParameter, device, {sizes.all}, type);
  }
  if (training_.optimizer != job::OptimizerKind::kAdamW) return;
  constexpr memory::Category kOptimizer = memory::Category::kOptimizer;
  const auto zeros = [&] {
    return optimizer_directory.empty()
               ? Zeros(kOptimizer, device, {sizes.trained})
               : MappedZeros(optimizer_directory, sizes.trained);
  };
  averages_ = zeros();
  squared_averages_ = zeros();
  step_ = Zeros(kOptimizer, device, {});
}

void ParameterStore::BindViews() {
  int64_t offset = 0;
  for (StageParameter* parameter : parameters_) {
    const int64_t elements = Elements(*parameter);
    const bool trains = offset < gradients_.numel();
    parameter->value = values_.narrow(0, offset, elements)
                           .view(parameter->shape)
                           .detach()
                           .requires_grad_(trains);
    if (rounded_.defined()) {
      parameter->rounded =
          rounded_.narrow(0, offset, elements).view(parameter->shape);
    }
    if (trains) {
      parameter->gradient =
          gradients_.narrow(0, offset, elements).view(parameter->shape);
      // Autograd adds to a gradient that is there, in place.
      parameter->value.mutable_grad() = parameter->gradient;
    }
    offset += Padded(*parameter);
  }
}

void ParameterStore::MakeRanges(const Sizes& sizes) {
  const auto add = [this](int64_t begin, int64_t end, double weight_decay) {
    if (begin == end) return;
    Range range;
    range.values = values_.narrow(0, begin, end - begin);
    range.gradients = gradients_.narrow(0, begin, end - begin);
    if (averages_.defined()) {
      range.averages = averages_.narrow(0, begin, end - begin);
      range.squared_averages = squared_averages_.narrow(0, begin, end - begin);
    }
    range.weight_decay = weight_decay;
    ranges_.push_back(std::move(range));
  };
  add(0, sizes.decaying, training_.weight_decay);
  add(sizes.decaying, sizes.trained, 0);
}

void ParameterStore::Initialise() {
  for (StageParameter* parameter : parameters_) {
    parameter->initialise(parameter->value);
  }
  Round();
}

void ParameterStore::Round() {
  if (rounded_.defined()) rounded_.copy_(values_);
}

void ParameterStore::ScaleGradients(double factor) {
  const at::NoGradGuard no_grad;
  gradients_.mul_(factor);
}

void ParameterStore::ZeroGradients() {
  if (!std::exchange(gradients_are_zero_, false)) gradients_.zero_();
}

std::vector<ParameterNorm> ParameterStore::SquaredNorms() const {
  const at::NoGradGuard no_grad;
  std::vector<ParameterNorm> norms;
  for (const StageParameter* parameter : CountedInGlobalOrder(parameters_)) {
    if (Frozen(*parameter)) continue;
    ParameterNorm norm;
    norm.global_index = parameter->global_index;
    norm.squared = SquaredNorm(parameter->gradient);
    norms.push_back(norm);
  }
  return norms;
}

void ParameterStore::Update(const UpdateOptions& options) {
  const at::NoGradGuard no_grad;
  if (own_kernels_) {
    UpdateInOnePass(options);
  } else {
    UpdateWithAten(options);
  }
  Round();
}

void ParameterStore::UpdateWithAten(const UpdateOptions& options) {
  if (options.clip_factor < 1) gradients_.mul_(options.clip_factor);
  if (training_.optimizer == job::OptimizerKind::kAdamW) {
    AdamW(options);
  } else {
    for (Range& range : ranges_) {
      range.values.add_(range.gradients, -options.learning_rate);
    }
  }
}

void ParameterStore::AdamW(const UpdateOptions& options) {
  step_.fill_(static_cast<double>(options.step.value() + 1));
  for (Range& range : ranges_) {
    at::_fused_adamw_({range.values}, {range.gradients}, {range.averages},
                      {range.squared_averages}, /*max_exp_avg_sqs=*/{}, {step_},
                      options.learning_rate, training_.betas[0],
                      training_.betas[1], range.weight_decay, training_.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false);
  }
}

void ParameterStore::UpdateInOnePass(const UpdateOptions& options) {
  const double clip = std::min(1.0, options.clip_factor);
  for (const Range& range : ranges_) {
    auto* const values = range.values.mutable_data_ptr<float>();
    auto* const gradients = range.gradients.mutable_data_ptr<float>();
    const int64_t count = range.values.numel();
    if (training_.optimizer == job::OptimizerKind::kSgd) {
      kernels::SgdUpdate({options.learning_rate, clip}, count, gradients,
                         values);
      continue;
    }
    kernels::AdamWOptions adamw;
    adamw.rate = options.learning_rate;
    adamw.clip = clip;
    adamw.beta1 = training_.betas[0];
    adamw.beta2 = training_.betas[1];
    adamw.epsilon = training_.epsilon;
    adamw.weight_decay = range.weight_decay;
    adamw.step = options.step.value() + 1;
    kernels::AdamWUpdate(
        adamw, count,
        {values, gradients, range.averages.mutable_data_ptr<float>(),
         range.squared_averages.mutable_data_ptr<float>()});
  }
  gradients_are_zero_ = true;
}

std::vector<ParameterDigest> ParameterStore::Digests() const {
  std::vector<ParameterDigest> digests;
  for (const StageParameter* parameter : CountedInGlobalOrder(parameters_)) {
    const at::Tensor value = parameter->value.detach().cpu();
    Sha256 sha256;
    sha256.Update(value.const_data_ptr(), value.nbytes());
    ParameterDigest digest;
    digest.name = parameter->name;
    digest.descriptor = DescriptorOf(*parameter);
    digest.sha256 = sha256.FinishHex();
    digests.push_back(std::move(digest));
  }
  return digests;
}

at::Tensor ParameterStore::PartOf(const at::Tensor& buffer,
                                  const StageParameter& parameter) {
  return buffer.narrow(0, parameter.value.storage_offset(),
                       Elements(parameter));
}

void ParameterStore::Export(const std::vector<StageParameter*>& of,
                            StageState* state) const {
  const at::NoGradGuard no_grad;
  for (const StageParameter* parameter : CountedInGlobalOrder(of)) {
    state->parameters.push_back(CopyToHost(parameter->stored_name(), *parameter,
                                           PartOf(values_, *parameter)));
    if (!averages_.defined() || Frozen(*parameter)) continue;
    state->optimizer.push_back(CopyToHost(AverageName(*parameter), *parameter,
                                          PartOf(averages_, *parameter)));
    state->optimizer.push_back(
        CopyToHost(SquaredAverageName(*parameter), *parameter,
                   PartOf(squared_averages_, *parameter)));
  }
}

absl::Status ParameterStore::ImportValues(const StateReader& read) {
  const at::NoGradGuard no_grad;
  for (const StageParameter* parameter : parameters_) {
    SC_RETURN_IF_ERROR(ReadInto(read, parameter->stored_name(), *parameter,
                                PartOf(values_, *parameter)));
  }
  Round();
  return absl::OkStatus();
}

absl::Status ParameterStore::ImportOptimizer(const StateReader& read) {
  const at::NoGradGuard no_grad;
  if (!averages_.defined()) return absl::OkStatus();
  for (const StageParameter* parameter : parameters_) {
    if (Frozen(*parameter)) continue;
    SC_RETURN_IF_ERROR(ReadInto(read, AverageName(*parameter), *parameter,
                                PartOf(averages_, *parameter)));
    SC_RETURN_IF_ERROR(ReadInto(read, SquaredAverageName(*parameter),
                                *parameter,
                                PartOf(squared_averages_, *parameter)));
  }
  return absl::OkStatus();
}

int64_t ParameterStore::buffer_bytes() const {
  return static_cast<int64_t>(values_.nbytes());
}

}  // namespace stagecoach::worker
