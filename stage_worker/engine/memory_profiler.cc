#include "stage_worker/engine/memory_profiler.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/tensor_descriptor.h"
#include "job/boundary.h"
#include "job/model_shape.h"
#include "stage_worker/engine/boundary_buffer.h"

namespace stagecoach::worker {
namespace {

using job::CategoryBytes;

constexpr MicrobatchIndex kMicrobatch{0};
constexpr StepIndex kStep{0};
// What kernels allocate once and keep is there after the first round.
constexpr int kMostRounds = 4;

class Profiler {
 public:
  Profiler(const MemoryProfilerOptions& options,
           std::shared_ptr<BoundaryBuffer> boundary)
      : options_(options),
        engine_(*options.engine),
        boundary_(std::move(boundary)) {}

  absl::StatusOr<job::StageMemory> Measure(const StageAssignment& stage);
  absl::Status MeasureUpdate(job::WorkerMemoryProfile* profile);
  CategoryBytes Now() const;

 private:
  // A made-up tensor of a peer, and how to see whether it is still held.
  struct Received {
    std::vector<TensorRef> tensors;
    std::weak_ptr<void> memory;
  };

  absl::StatusOr<Received> Receive(BoundaryBuffer::Direction direction);
  // Nothing for the first stage, and for the last one.
  absl::StatusOr<Received> Inputs(const StageAssignment& stage);
  absl::StatusOr<Received> OutputGradients(const StageAssignment& stage);
  template <typename Work>
  absl::StatusOr<CategoryBytes> PeakOf(Work work);
  // What goes when these are dropped.
  CategoryBytes Drop(std::vector<TensorRef>* tensors);
  absl::Status Forward(const StageAssignment& stage, job::StageMemory* memory,
                       std::weak_ptr<void>* input);
  absl::Status Whole(const StageAssignment& stage, job::StageMemory* memory);
  absl::Status Split(const StageAssignment& stage, job::StageMemory* memory);
  absl::Status Evaluation(const StageAssignment& stage,
                          job::StageMemory* memory);

  const MemoryProfilerOptions& options_;
  StageEngine& engine_;
  const std::shared_ptr<BoundaryBuffer> boundary_;
};

CategoryBytes Profiler::Now() const {
  const memory::AllocatorStats stats = options_.allocator->Stats();
  CategoryBytes now;
  now.total = stats.allocated_bytes.current;
  for (size_t i = 0; i < now.categories.size(); ++i) {
    now.categories[i] = stats.categories[i].current;
  }
  return now;
}

template <typename Work>
absl::StatusOr<CategoryBytes> Profiler::PeakOf(Work work) {
  const CategoryBytes before = Now();
  options_.allocator->ResetPeaks();
  SC_RETURN_IF_ERROR(work());
  const memory::AllocatorStats stats = options_.allocator->Stats();
  CategoryBytes peak;
  peak.total = stats.allocated_bytes.peak;
  for (size_t i = 0; i < peak.categories.size(); ++i) {
    peak.categories[i] = stats.categories[i].peak;
  }
  return peak - before;
}

absl::StatusOr<Profiler::Received> Profiler::Receive(
    BoundaryBuffer::Direction direction) {
  Received received;
  const std::shared_ptr<void> memory(boundary_->data(),
                                     [held = boundary_](void*) {});
  received.memory = memory;
  SC_ASSIGN_OR_RETURN(received.tensors,
                      boundary_->Adopt(&engine_, memory, direction));
  return received;
}

absl::StatusOr<Profiler::Received> Profiler::Inputs(
    const StageAssignment& stage) {
  if (stage.first) return Received();
  return Receive(BoundaryBuffer::Direction::kActivations);
}

absl::StatusOr<Profiler::Received> Profiler::OutputGradients(
    const StageAssignment& stage) {
  if (stage.last) return Received();
  return Receive(BoundaryBuffer::Direction::kGradients);
}

CategoryBytes Profiler::Drop(std::vector<TensorRef>* tensors) {
  const CategoryBytes held = Now();
  tensors->clear();
  return held - Now();
}

absl::Status Profiler::Forward(const StageAssignment& stage,
                               job::StageMemory* memory,
                               std::weak_ptr<void>* input) {
  SC_RETURN_IF_ERROR(engine_.BeginStep(kStep, /*target_tokens=*/1));
  SC_ASSIGN_OR_RETURN(Received received, Inputs(stage));
  *input = received.memory;
  const CategoryBytes before = Now();
  std::vector<TensorRef> outputs;
  SC_ASSIGN_OR_RETURN(memory->forward_peak, PeakOf([&]() -> absl::Status {
                        SC_ASSIGN_OR_RETURN(
                            outputs,
                            engine_.Forward(stage.stage, kMicrobatch,
                                            std::move(received.tensors)));
                        return absl::OkStatus();
                      }));
  received.tensors.clear();
  memory->output = Drop(&outputs);
  memory->retained = Now() - before;
  memory->keeps_input = !input->expired();
  return absl::OkStatus();
}

absl::Status Profiler::Whole(const StageAssignment& stage,
                             job::StageMemory* memory) {
  std::weak_ptr<void> input;
  SC_RETURN_IF_ERROR(Forward(stage, memory, &input));
  SC_ASSIGN_OR_RETURN(Received received, OutputGradients(stage));
  std::vector<TensorRef> gradients;
  SC_ASSIGN_OR_RETURN(memory->backward_peak, PeakOf([&]() -> absl::Status {
                        SC_ASSIGN_OR_RETURN(
                            gradients,
                            engine_.Backward(stage.stage, kMicrobatch,
                                             std::move(received.tensors)));
                        return absl::OkStatus();
                      }));
  memory->backward_output = Drop(&gradients);
  engine_.Drop();
  return absl::OkStatus();
}

absl::Status Profiler::Split(const StageAssignment& stage,
                             job::StageMemory* memory) {
  std::weak_ptr<void> input;
  SC_RETURN_IF_ERROR(Forward(stage, memory, &input));
  const CategoryBytes forwarded = Now();
  SC_ASSIGN_OR_RETURN(Received received, OutputGradients(stage));
  std::vector<TensorRef> gradients;
  auto peak = PeakOf([&]() -> absl::Status {
    SC_ASSIGN_OR_RETURN(gradients,
                        engine_.BackwardInput(stage.stage, kMicrobatch,
                                              std::move(received.tensors)));
    return absl::OkStatus();
  });
  if (absl::IsUnimplemented(peak.status())) {
    engine_.Drop();
    return absl::OkStatus();
  }
  SC_ASSIGN_OR_RETURN(memory->backward_input_peak, std::move(peak));
  received.tensors.clear();
  memory->backward_input_output = Drop(&gradients);
  memory->kept_for_weight = memory->retained + (Now() - forwarded);
  memory->keeps_input_for_weight = !input.expired();
  memory->keeps_gradient_for_weight = !received.memory.expired();
  SC_ASSIGN_OR_RETURN(memory->backward_weight_peak, PeakOf([&] {
                        return engine_.BackwardWeight(stage.stage, kMicrobatch);
                      }));
  memory->splits = true;
  engine_.Drop();
  return absl::OkStatus();
}

absl::Status Profiler::Evaluation(const StageAssignment& stage,
                                  job::StageMemory* memory) {
  SC_RETURN_IF_ERROR(
      engine_.BeginEvaluation(kStep, options_.data, /*microbatches=*/1));
  SC_ASSIGN_OR_RETURN(Received received, Inputs(stage));
  std::vector<TensorRef> outputs;
  SC_ASSIGN_OR_RETURN(memory->evaluation_peak, PeakOf([&]() -> absl::Status {
                        SC_ASSIGN_OR_RETURN(
                            outputs,
                            engine_.Forward(stage.stage, kMicrobatch,
                                            std::move(received.tensors)));
                        return absl::OkStatus();
                      }));
  memory->evaluation_output = Drop(&outputs);
  engine_.Drop();
  return absl::OkStatus();
}

absl::StatusOr<job::StageMemory> Profiler::Measure(
    const StageAssignment& stage) {
  job::StageMemory memory;
  memory.stage = stage.stage;
  for (int round = 0; round < kMostRounds; ++round) {
    const CategoryBytes before = Now();
    // Split first: what it says of the forward, the other says again.
    SC_RETURN_IF_ERROR(Split(stage, &memory));
    SC_RETURN_IF_ERROR(Whole(stage, &memory));
    if (!options_.spec.evaluation.path.empty()) {
      SC_RETURN_IF_ERROR(Evaluation(stage, &memory));
    }
    if (Now() == before) break;
  }
  return memory;
}

absl::Status Profiler::MeasureUpdate(job::WorkerMemoryProfile* profile) {
  // Gradients are zero.
  SC_RETURN_IF_ERROR(engine_.BeginStep(kStep, /*target_tokens=*/1));
  SC_ASSIGN_OR_RETURN(profile->norms_peak, PeakOf([this] {
                        return engine_.FinishGradients().status();
                      }));
  SC_ASSIGN_OR_RETURN(profile->update_peak, PeakOf([this] {
                        UpdateOptions update;
                        update.step = kStep;
                        return engine_.ApplyUpdate(update);
                      }));
  return absl::OkStatus();
}

// Parameters, and the optimizer's averages; a tied copy is the owner's.
int64_t StateCopyBytes(const MemoryProfilerOptions& options) {
  const job::TrainingSpec& training = options.spec.training;
  const bool adam = training.optimizer == job::OptimizerKind::kAdamW;
  int64_t elements = 0;
  for (const StageAssignment& stage : options.stages) {
    for (const job::ParameterShape& shape :
         job::StageParameters(options.spec, stage.layers)) {
      if (shape.tied_copy) continue;
      const bool averages = adam && !job::IsFrozen(training, shape.name);
      elements += shape.elements() * (averages ? 3 : 1);
    }
  }
  return elements * static_cast<int64_t>(sizeof(float));
}

}  // namespace

absl::StatusOr<job::WorkerMemoryProfile> ProfileWorkerMemory(
    const MemoryProfilerOptions& options) {
  job::WorkerMemoryProfile profile;
  {
    SC_ASSIGN_OR_RETURN(
        std::shared_ptr<BoundaryBuffer> boundary,
        BoundaryBuffer::New(options.allocator, job::BoundaryOf(options.spec)));
    Profiler profiler(options, std::move(boundary));
    for (const StageAssignment& stage : options.stages) {
      auto memory = profiler.Measure(stage);
      if (!memory.ok()) {
        return Annotate(memory.status(),
                        absl::StrCat("measuring the memory of stage ",
                                     stage.stage.value()));
      }
      profile.stages.push_back(*std::move(memory));
    }
    SC_RETURN_IF_ERROR(profiler.MeasureUpdate(&profile));
    profile.resident = profiler.Now();
  }
  // The boundary's bytes are no part of it.
  profile.resident.Add(MemoryCategory::kWireReceive,
                       -profile.resident.Of(MemoryCategory::kWireReceive));
  // Of stages that the job brings, the engine alone knows the parameters.
  profile.state_copy_bytes =
      options.spec.model.brings_stages()
          ? profile.resident.Of(MemoryCategory::kParameter) +
                profile.resident.Of(MemoryCategory::kOptimizer)
          : StateCopyBytes(options);
  const job::ModelSpec& model = options.spec.model;
  if (job::SumsTiedGradients(options.spec)) {
    profile.tied_gradient_bytes =
        model.vocabulary * model.hidden * static_cast<int64_t>(sizeof(float));
  }
  return profile;
}

}  // namespace stagecoach::worker
