#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_PARAMETER_STORE_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_PARAMETER_STORE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "job/job_spec.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/model/stage_model.h"

namespace stagecoach::worker {

// All parameters of one worker, their gradients and their optimizer state, each
// kind in one flat float32 buffer:
//
//   [ parameters that decay: 2 and more dimensions | the rest | frozen ]
//
// so that an optimizer step is one fused call for each of the two first ranges.
// Frozen parameters have neither gradients nor optimizer state. Every parameter
// begins at a multiple of 16 elements (64 bytes: a cache line, and the widest
// vector): where a parameter lies in the buffer does not change its bits. The
// gaps are zero and stay zero. Where the job computes in a shorter type there
// is a copy of the values in it, made anew whenever they change.
//
// Methods throw what torch throws. Single-executor.
class ParameterStore {
 public:
  // Fills value and gradient of each parameter (a frozen one's gradient stays
  // undefined, its value requires none) and initialises the values.
  // `parameters` must outlive the store. Where a directory is given, the
  // optimizer's averages lie in files there (see MappedZeros).
  ParameterStore(const job::TrainingSpec& training, const at::Device& device,
                 std::vector<StageParameter*> parameters,
                 const std::string& optimizer_directory = "");

  // Before a step; free if the last update has left them so.
  void ZeroGradients();
  // Multiplies all gradients: divides by the scale of the loss.
  void ScaleGradients(double factor);
  // Sums of squares in double, in global order; tied ones by the owner only,
  // frozen ones not at all.
  std::vector<ParameterNorm> SquaredNorms() const;
  // Clips the gradients and takes one optimizer step. What the gradients hold
  // afterwards is not said.
  void Update(const UpdateOptions& options);
  // SHA-256 of each parameter's bytes, in global order; tied ones by the owner
  // only.
  std::vector<ParameterDigest> Digests() const;

  // Copies on the host of what the parameters among `of` and the optimizer hold
  // now; a tied copy is left out.
  void Export(const std::vector<StageParameter*>& of, StageState* state) const;
  // Replaces all values, or all optimizer state, by what `read` gives.
  absl::Status ImportValues(const StateReader& read);
  absl::Status ImportOptimizer(const StateReader& read);

  // The two leaves of the tied parameter, null where this worker lacks them.
  StageParameter* tied_owner() const { return tied_owner_; }
  StageParameter* tied_copy() const { return tied_copy_; }

  // Bytes of the parameter buffer, gaps included. Without frozen parameters the
  // gradient has as many, the optimizer twice as many and a step counter of 4
  // (AdamW), or none (SGD).
  int64_t buffer_bytes() const;

 private:
  // A stretch of the buffers that one optimizer call covers.
  struct Range {
    at::Tensor values;
    at::Tensor gradients;
    at::Tensor averages;          // of the gradient; AdamW only
    at::Tensor squared_averages;  // AdamW only
    double weight_decay = 0;
  };

  // Elements of the buffers, from their beginning.
  struct Sizes {
    int64_t decaying = 0;
    int64_t trained = 0;
    int64_t all = 0;
  };

  bool Frozen(const StageParameter& parameter) const;
  Sizes Measure() const;
  void AllocateBuffers(const at::Device& device, const Sizes& sizes,
                       const std::string& optimizer_directory);
  void BindViews();
  void MakeRanges(const Sizes& sizes);
  void Initialise();
  // After any change of the values.
  void Round();
  void UpdateWithAten(const UpdateOptions& options);
  void AdamW(const UpdateOptions& options);
  // The same in one pass each, with own kernels.
  void UpdateInOnePass(const UpdateOptions& options);
  // The stretch of one of the flat buffers that belongs to the parameter.
  static at::Tensor PartOf(const at::Tensor& buffer,
                           const StageParameter& parameter);

  const job::TrainingSpec training_;
  const std::vector<StageParameter*> parameters_;  // in buffer order
  StageParameter* tied_owner_ = nullptr;
  StageParameter* tied_copy_ = nullptr;
  at::Tensor values_;
  at::Tensor rounded_;  // undefined: float32 is what the job computes in
  at::Tensor gradients_;
  at::Tensor averages_;
  at::Tensor squared_averages_;
  at::Tensor step_;
  std::vector<Range> ranges_;
  const bool own_kernels_;
  bool gradients_are_zero_ = false;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_PARAMETER_STORE_H_
