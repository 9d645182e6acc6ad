#ifndef STAGECOACH_STAGE_WORKER_DATA_TOKEN_STREAM_H_
#define STAGECOACH_STAGE_WORKER_DATA_TOKEN_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "stage_worker/data/mapped_file.h"

namespace stagecoach::worker {

enum class TokenType { kUInt8, kUInt16, kInt32, kUInt32, kInt64 };

int64_t BytesOf(TokenType type);
const char* NameOf(TokenType type);  // "uint16"

// The tokens of a mapped file, one after the other, little-endian. Immutable,
// thread-safe.
class TokenStream {
 public:
  // `tokens` of them from byte `begin` of the file, which has so many.
  TokenStream(std::unique_ptr<MappedFile> file, TokenType type, int64_t begin,
              int64_t tokens)
      : file_(std::move(file)), type_(type), begin_(begin), tokens_(tokens) {}

  int64_t tokens() const { return tokens_; }
  TokenType type() const { return type_; }
  // 0 <= position < tokens().
  int64_t At(int64_t position) const;

 private:
  const std::unique_ptr<MappedFile> file_;
  const TokenType type_;
  const int64_t begin_;
  const int64_t tokens_;
};

// Each byte of a file. kNotFound, kInvalidArgument (unreadable or empty).
absl::StatusOr<std::unique_ptr<TokenStream>> OpenText(const std::string& path);

// A file of tokens and nothing else, as nanoGPT and others write it; or one
// with the header of llm.c: 256 int32, of which the first are a magic number
// that tells the type, the version 1, and the number of tokens. kNotFound;
// kInvalidArgument: no whole number of tokens, or a header of another type.
absl::StatusOr<std::unique_ptr<TokenStream>> OpenTokenFile(
    const std::string& path, TokenType type);

// Megatron's indexed data set: PATH ends in ".bin" and has an ".idx" beside it.
// All its sequences, in order, are one stream. kNotFound; kInvalidArgument: a
// damaged index, floating-point tokens, or sequences that do not lie one after
// the other in the file.
absl::StatusOr<std::unique_ptr<TokenStream>> OpenMegatron(
    const std::string& path);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_DATA_TOKEN_STREAM_H_
