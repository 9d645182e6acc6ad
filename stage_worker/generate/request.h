#ifndef STAGECOACH_STAGE_WORKER_GENERATE_REQUEST_H_
#define STAGECOACH_STAGE_WORKER_GENERATE_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach::worker {

// What `stagecoach generate` asks `stagecoach-worker --generate` for. Tokens
// only: whoever asks knows what they mean as text. Plain data.
struct GenerateRequest {
  std::string checkpoint;       // folder with config.json and safetensors
  std::vector<int64_t> prompt;  // at least one token
  int64_t tokens = 0;           // at most so many are generated
  double temperature = 0;       // 0: always the likeliest
  int64_t top_k = 0;            // only among the k likeliest; 0: all
  int64_t seed = 0;
  // Tokens from here on are never chosen (a byte model's vocabulary may be
  // larger than 256); 0: all may be.
  int64_t token_limit = 0;
  std::vector<int64_t> stop;  // generation ends with one of these
  int64_t threads = 1;        // within one operation
};

std::string GenerateRequestToJson(const GenerateRequest& request);
// kInvalidArgument names the key that is missing, unknown or out of range.
absl::StatusOr<GenerateRequest> GenerateRequestFromJson(absl::string_view text);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_GENERATE_REQUEST_H_
