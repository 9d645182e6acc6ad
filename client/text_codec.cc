#include "client/text_codec.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::client {
namespace {

class ByteCodec final : public TextCodec {
 public:
  absl::StatusOr<std::vector<int64_t>> Encode(
      const std::string& text) override {
    std::vector<int64_t> tokens;
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  absl::StatusOr<std::string> Append(int64_t token) override {
    if (token >= 0 && token < 256) {
      return std::string(1, static_cast<char>(token));
    }
    return absl::InternalError(
        absl::StrCat("the worker chose token ", token, ", which is no byte"));
  }
  absl::StatusOr<std::string> Finish() override { return std::string(); }
};

}  // namespace

std::unique_ptr<TextCodec> NewByteCodec() {
  return std::make_unique<ByteCodec>();
}

}  // namespace stagecoach::client
