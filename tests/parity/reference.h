#ifndef STAGECOACH_TESTS_PARITY_REFERENCE_H_
#define STAGECOACH_TESTS_PARITY_REFERENCE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "job/job_spec.h"
#include "stage_worker/checkpoint/safetensors.h"
#include "stage_worker/data/data_source.h"

namespace stagecoach::parity {

// One model that transformers trained for some steps, and what it got.
struct Reference {
  struct Step {
    std::vector<double> microbatch_losses;  // mean over the microbatch's tokens
    double gradient_norm = 0;               // before clipping
    double learning_rate = 0;
  };
  struct Parameter {
    double first_gradient_norm = 0;  // of the first step, before clipping
    std::vector<float> final_value;
    // How far runs of transformers itself are apart there (other attention
    // kernels, two threads): a gradient that is zero but for rounding becomes
    // an update of the learning rate's size under AdamW.
    double final_spread = 0;
  };

  job::JobSpec spec;  // the same job, but for pipeline
  std::vector<Step> steps;
  std::map<std::string, Parameter> parameters;  // as stored; tied once
  // [step][microbatch][row][sequence + 1]
  std::vector<std::vector<std::vector<std::vector<int64_t>>>> tokens;
};

// Reads a folder that make_reference.py wrote.
absl::StatusOr<Reference> LoadReference(const std::string& folder);

// Its tokens.
class ReferenceData final : public worker::DataSource {
 public:
  // `reference` must outlive it.
  explicit ReferenceData(const Reference& reference) : reference_(reference) {}
  absl::StatusOr<worker::TokenBatch> Read(StepIndex step,
                                          MicrobatchIndex microbatch) override;
  int64_t samples() const override;

 private:
  const Reference& reference_;
};

}  // namespace stagecoach::parity

#endif  // STAGECOACH_TESTS_PARITY_REFERENCE_H_
