#ifndef STAGECOACH_STAGE_WORKER_GENERATE_LANGUAGE_MODEL_H_
#define STAGECOACH_STAGE_WORKER_GENERATE_LANGUAGE_MODEL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "job/job_spec.h"
#include "stage_worker/model/stage_model.h"

namespace stagecoach::worker {

// A whole model in one process, on the CPU, that says what comes next: all
// blocks as one stage and the head as another, without gradients. Keys and
// values of what was seen are kept: tokens behind the last ones cost only
// themselves. Where the beginning is another, or has been lost, all are run
// again.
//
// Single-executor.
class LanguageModel {
 public:
  // Reads config.json and the weights of a Hugging Face folder, or of a
  // checkpoint, which is one. Errors as LoadHfConfig and StartFromCheckpoint.
  static absl::StatusOr<std::unique_ptr<LanguageModel>> Open(
      const std::string& folder);

  int64_t vocabulary() const { return spec_.model.vocabulary; }
  // Most tokens that it sees at once.
  int64_t positions() const { return positions_; }

  // Logits [vocabulary] of the token behind `tokens`, of which the last
  // positions() count. kInvalidArgument if there is none, or one that the
  // vocabulary does not have.
  absl::StatusOr<std::vector<float>> NextLogits(
      absl::Span<const int64_t> tokens);

 private:
  explicit LanguageModel(const job::JobSpec& spec);
  absl::Status LoadWeights();
  // Makes the stages anew if they are for fewer tokens.
  absl::Status MakeRoom(int64_t length);
  // Runs those tokens that the cache does not hold, and keeps the logits.
  absl::Status See(absl::Span<const int64_t> tokens);
  absl::StatusOr<std::unique_ptr<StageModel>> NewStage(
      const StageAssignment& assignment);

  job::JobSpec spec_;
  const int64_t positions_;
  std::map<std::string, at::Tensor> weights_;  // by the name in the files
  std::unique_ptr<StageModel> blocks_;
  std::unique_ptr<StageModel> head_;
  std::vector<int64_t> seen_;  // the tokens of the cache
  KeyValueCache cache_;
  std::vector<float> logits_;  // behind them
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_GENERATE_LANGUAGE_MODEL_H_
