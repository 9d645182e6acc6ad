#ifndef STAGECOACH_CLIENT_GENERATION_SOURCE_H_
#define STAGECOACH_CLIENT_GENERATION_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stagecoach::client {

// Where `stagecoach generate` takes a model from.
struct GenerationSource {
  std::string folder;     // absolute; config.json and the weights
  std::string tokenizer;  // path of its tokenizer.json; empty: bytes are tokens
  // Tokens that end a text, of generation_config.json or config.json; none
  // where bytes are tokens.
  std::vector<int64_t> end_tokens;
  std::vector<std::string> warnings;
};

// `path`: a Hugging Face folder, a checkpoint, or a directory of checkpoints,
// which stands for its newest sound one. `tokenizer`: a file, or empty for the
// one that belongs to the model: beside the weights, or beside those that the
// job began with, or beside its data, as `data prepare` leaves it. Where there
// is none, and the job's data was bytes or the vocabulary is 256, bytes are the
// tokens.
//
// kNotFound: nothing of that kind at `path`, or no such tokenizer;
// kInvalidArgument: no tokenizer and no byte model, or a damaged config.json;
// kDataLoss: only damaged checkpoints.
absl::StatusOr<GenerationSource> FindGenerationSource(
    const std::string& path, const std::string& tokenizer);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_GENERATION_SOURCE_H_
