#ifndef STAGECOACH_CLIENT_DATA_PREPARE_H_
#define STAGECOACH_CLIENT_DATA_PREPARE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/data/corpus.h"
#include "client/data/tokenizer_process.h"

namespace stagecoach::client {

struct PrepareOptions {
  Corpus::Options input;
  std::string tokenizer;  // tokenizer.json
  std::string output;     // ends in ".bin"
  bool megatron = false;
  // Part of the documents (of a plain text: of its end) that goes into
  // OUTPUT.validation.bin; 0: none.
  double validation = 0;
  // Text of the token that follows each document; "none": nothing does; empty:
  // the first of the usual ones that the tokenizer has.
  std::string end_token;
};

struct Prepared {
  struct Part {
    std::string path;
    int64_t documents = 0;
    int64_t tokens = 0;
  };
  Part training;
  std::optional<Part> validation;
  std::vector<std::string> files;  // all that were written
  std::string token_type;
  int64_t vocabulary = 0;
  std::string end_token;  // "<|endoftext|>"; empty: none
  std::optional<uint32_t> end_token_id;
  int64_t bytes = 0;    // of the input
  int64_t skipped = 0;  // bad lines
};

struct PrepareProgress {
  int64_t bytes_read = 0;
  int64_t bytes = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
};

// Turns a corpus into token files that a job trains on, and puts a copy of the
// tokenizer beside them (OUTPUT.tokenizer.json), where `generate` looks for it.
// The files appear together when all are on the disk; after an error there are
// none. Document i of n goes to validation where floor((i+1) f) > floor(i f).
//
// Errors: Corpus's; kInvalidArgument for texts that are not UTF-8, a token that
// the tokenizer does not have, or a part without tokens; kAlreadyExists for
// files that are there. Blocks.
absl::StatusOr<Prepared> PrepareData(
    const PrepareOptions& options, TokenizerProcess* tokenizer,
    const std::function<void(const PrepareProgress&)>& on_progress);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_DATA_PREPARE_H_
