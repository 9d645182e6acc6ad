#include "client/data/tokenizer_codec.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace stagecoach::client {
namespace {

// What a decoder writes for bytes that are no whole character.
constexpr char kReplacement[] = "\xEF\xBF\xBD";

class TokenizerCodec final : public TextCodec {
 public:
  explicit TokenizerCodec(std::unique_ptr<TokenizerProcess> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  absl::StatusOr<std::vector<int64_t>> Encode(
      const std::string& text) override {
    SC_ASSIGN_OR_RETURN(tokens_, tokenizer_->EncodePrompt(text));
    SC_ASSIGN_OR_RETURN(shown_, tokenizer_->Decode(tokens_));
    return std::vector<int64_t>(tokens_.begin(), tokens_.end());
  }

  absl::StatusOr<std::string> Append(int64_t token) override {
    tokens_.push_back(static_cast<uint32_t>(token));
    SC_ASSIGN_OR_RETURN(const std::string text, tokenizer_->Decode(tokens_));
    // The rest of a character may follow.
    if (absl::EndsWith(text, kReplacement)) return std::string();
    return Show(text);
  }

  absl::StatusOr<std::string> Finish() override {
    SC_ASSIGN_OR_RETURN(const std::string text, tokenizer_->Decode(tokens_));
    return Show(text);
  }

 private:
  // Tokens have no text of their own (some begin with the space before a word
  // only within a text), so all are decoded, and what is new is shown.
  std::string Show(const std::string& text) {
    absl::string_view rest = text;
    std::string added(absl::ConsumePrefix(&rest, shown_) ? rest : "");
    if (!added.empty()) shown_ = text;
    return added;
  }

  const std::unique_ptr<TokenizerProcess> tokenizer_;
  std::vector<uint32_t> tokens_;  // the prompt's and those that followed
  std::string shown_;
};

}  // namespace

std::unique_ptr<TextCodec> NewTokenizerCodec(
    std::unique_ptr<TokenizerProcess> tokenizer) {
  return std::make_unique<TokenizerCodec>(std::move(tokenizer));
}

}  // namespace stagecoach::client
