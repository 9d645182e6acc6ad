#ifndef STAGECOACH_CLIENT_TEXT_CODEC_H_
#define STAGECOACH_CLIENT_TEXT_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stagecoach::client {

// What a model's tokens mean as text. Thread-compatible.
class TextCodec {
 public:
  virtual ~TextCodec() = default;
  // The tokens of a prompt.
  virtual absl::StatusOr<std::vector<int64_t>> Encode(
      const std::string& text) = 0;
  // The text that one more generated token adds to those before it: nothing
  // yet, where only more tokens will make it a whole character.
  virtual absl::StatusOr<std::string> Append(int64_t token) = 0;
  // What such a wait still holds back, once no token follows.
  virtual absl::StatusOr<std::string> Finish() = 0;
};

// Every byte is a token, as with data.kind = "text". What a terminal makes of
// bytes that are no whole character is its own.
std::unique_ptr<TextCodec> NewByteCodec();

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_TEXT_CODEC_H_
