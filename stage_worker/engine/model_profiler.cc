#include "stage_worker/engine/model_profiler.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "base/tensor_descriptor.h"
#include "job/boundary.h"
#include "memory/category.h"
#include "stage_worker/engine/boundary_buffer.h"

namespace stagecoach::worker {
namespace {

constexpr int kLeastRuns = 3;
constexpr int kMostRuns = 10;
// Of one piece. After kEnough only the runs that must be are made, after
// kTooLong none: noise matters little to what takes that long.
constexpr absl::Duration kEnough = absl::Milliseconds(300);
constexpr absl::Duration kTooLong = absl::Seconds(2);
constexpr MicrobatchIndex kMicrobatch{0};

// Measures one piece of the model by itself.
class PieceProfiler {
 public:
  PieceProfiler(const ProfilerOptions& options, const StageAssignment& piece,
                std::shared_ptr<BoundaryBuffer> boundary)
      : options_(options), piece_(piece), boundary_(std::move(boundary)) {}

  absl::StatusOr<job::LayerProfile> Run();

 private:
  absl::Status Build();
  void ForgetTimes();
  absl::Status RunWhole();
  absl::Status RunSplit();
  absl::Status Forward(double* shortest);
  template <typename Work>
  absl::Status Timed(double* shortest, Work work);
  absl::StatusOr<std::vector<TensorRef>> Inputs();
  absl::StatusOr<std::vector<TensorRef>> OutputGradients();
  int64_t ActivationBytes() const;

  const ProfilerOptions& options_;
  const StageAssignment piece_;
  const std::shared_ptr<BoundaryBuffer> boundary_;
  std::unique_ptr<StageEngine> engine_;
  job::LayerProfile profile_;
};

absl::Status PieceProfiler::Build() {
  EngineOptions engine;
  engine.spec = options_.spec;
  engine.spec.training.microbatches = 1;
  engine.spec.training.last_microbatch_size = 0;
  engine.spec.pipeline.schedule = "1f1b";
  engine.stages = {piece_};
  engine.data = options_.data;
  engine.made_up_inputs = true;
  SC_ASSIGN_OR_RETURN(engine_, options_.engine_factory(engine));
  return absl::OkStatus();
}

int64_t PieceProfiler::ActivationBytes() const {
  const auto category = static_cast<size_t>(memory::Category::kActivation);
  return options_.allocator->Stats().categories[category].current;
}

absl::StatusOr<std::vector<TensorRef>> PieceProfiler::Inputs() {
  if (piece_.first) return std::vector<TensorRef>();
  return boundary_->Adopt(engine_.get(), boundary_,
                          BoundaryBuffer::Direction::kActivations);
}

absl::StatusOr<std::vector<TensorRef>> PieceProfiler::OutputGradients() {
  if (piece_.last) return std::vector<TensorRef>();
  return boundary_->Adopt(engine_.get(), boundary_,
                          BoundaryBuffer::Direction::kGradients);
}

template <typename Work>
absl::Status PieceProfiler::Timed(double* shortest, Work work) {
  if (options_.cancelled()) return absl::CancelledError("cancelled");
  const absl::Time start = options_.clock->Now();
  SC_RETURN_IF_ERROR(work());
  const double seconds = absl::ToDoubleSeconds(options_.clock->Now() - start);
  *shortest = std::min(*shortest, seconds);
  return absl::OkStatus();
}

absl::Status PieceProfiler::Forward(double* shortest) {
  SC_RETURN_IF_ERROR(engine_->BeginStep(StepIndex(0), /*target_tokens=*/1));
  SC_ASSIGN_OR_RETURN(std::vector<TensorRef> inputs, Inputs());
  const int64_t before = ActivationBytes();
  std::vector<TensorRef> outputs;
  SC_RETURN_IF_ERROR(Timed(shortest, [&]() -> absl::Status {
    SC_ASSIGN_OR_RETURN(outputs, engine_->Forward(piece_.stage, kMicrobatch,
                                                  std::move(inputs)));
    return absl::OkStatus();
  }));
  outputs.clear();  // as after its acknowledgement
  profile_.in_flight_bytes = ActivationBytes() - before;
  return absl::OkStatus();
}

absl::Status PieceProfiler::RunWhole() {
  SC_RETURN_IF_ERROR(Forward(&profile_.forward_seconds));
  SC_ASSIGN_OR_RETURN(std::vector<TensorRef> gradients, OutputGradients());
  SC_RETURN_IF_ERROR(Timed(&profile_.backward_seconds, [&] {
    return engine_->Backward(piece_.stage, kMicrobatch, std::move(gradients))
        .status();
  }));
  engine_->Drop();
  return absl::OkStatus();
}

absl::Status PieceProfiler::RunSplit() {
  SC_RETURN_IF_ERROR(Forward(&profile_.forward_seconds));
  SC_ASSIGN_OR_RETURN(std::vector<TensorRef> gradients, OutputGradients());
  SC_RETURN_IF_ERROR(Timed(&profile_.backward_input_seconds, [&] {
    return engine_
        ->BackwardInput(piece_.stage, kMicrobatch, std::move(gradients))
        .status();
  }));
  SC_RETURN_IF_ERROR(Timed(&profile_.backward_weight_seconds, [&] {
    return engine_->BackwardWeight(piece_.stage, kMicrobatch);
  }));
  engine_->Drop();
  return absl::OkStatus();
}

absl::StatusOr<job::LayerProfile> PieceProfiler::Run() {
  SC_RETURN_IF_ERROR(Build());
  absl::Time start = options_.clock->Now();
  for (int run = 0; run <= kMostRuns; ++run) {
    const absl::Duration taken = options_.clock->Now() - start;
    if (taken >= kTooLong && run > 0) break;
    if (taken >= kEnough && run > kLeastRuns) break;
    // The first run of anything pays for what later ones find ready.
    if (run <= 1) ForgetTimes();
    if (run == 1) start = options_.clock->Now();
    SC_RETURN_IF_ERROR(RunWhole());
    SC_RETURN_IF_ERROR(RunSplit());
  }
  return profile_;
}

void PieceProfiler::ForgetTimes() {
  const double none = std::numeric_limits<double>::infinity();
  profile_.forward_seconds = profile_.backward_seconds = none;
  profile_.backward_input_seconds = profile_.backward_weight_seconds = none;
}

absl::StatusOr<job::LayerProfile> ProfilePiece(
    const ProfilerOptions& options, const char* name, StageAssignment piece,
    const std::shared_ptr<BoundaryBuffer>& boundary) {
  auto profile = PieceProfiler(options, piece, boundary).Run();
  if (profile.ok()) return profile;
  return Annotate(profile.status(), absl::StrCat("profiling the ", name));
}

absl::StatusOr<double> CopySeconds(const ProfilerOptions& options,
                                   const BoundaryBuffer& from,
                                   const job::Boundary& boundary) {
  SC_ASSIGN_OR_RETURN(const std::shared_ptr<BoundaryBuffer> to,
                      BoundaryBuffer::New(options.allocator, boundary));
  const auto bytes = static_cast<size_t>(boundary.bytes());
  double shortest = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kMostRuns; ++run) {
    const absl::Time start = options.clock->Now();
    std::memcpy(to->data(), from.data(), bytes);
    shortest =
        std::min(shortest, absl::ToDoubleSeconds(options.clock->Now() - start));
  }
  return shortest;
}

}  // namespace

absl::StatusOr<job::ModelProfile> ProfileModel(const ProfilerOptions& options) {
  const int64_t layers = options.spec.model.layers;
  const job::Boundary sizes = job::BoundaryOf(options.spec);
  SC_ASSIGN_OR_RETURN(const std::shared_ptr<BoundaryBuffer> boundary,
                      BoundaryBuffer::New(options.allocator, sizes));
  job::ModelProfile profile;
  StageAssignment embedding;
  embedding.stage = StageIndex(0);
  embedding.first = true;
  SC_ASSIGN_OR_RETURN(profile.embedding,
                      ProfilePiece(options, "embedding", embedding, boundary));
  StageAssignment layer;
  layer.stage = StageIndex(1);
  layer.layers.end = 1;
  SC_ASSIGN_OR_RETURN(const job::LayerProfile measured,
                      ProfilePiece(options, "layer", layer, boundary));
  profile.layers.assign(static_cast<size_t>(layers), measured);
  StageAssignment head;
  head.stage = StageIndex(2);
  head.layers.begin = head.layers.end = layers;
  head.last = true;
  SC_ASSIGN_OR_RETURN(profile.head,
                      ProfilePiece(options, "head", head, boundary));
  SC_ASSIGN_OR_RETURN(profile.copy_seconds,
                      CopySeconds(options, *boundary, sizes));
  return profile;
}

}  // namespace stagecoach::worker
