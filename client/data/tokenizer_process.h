#ifndef STAGECOACH_CLIENT_DATA_TOKENIZER_PROCESS_H_
#define STAGECOACH_CLIENT_DATA_TOKENIZER_PROCESS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/process.h"
#include "client/child_log.h"
#include "client/interrupt.h"

namespace stagecoach::client {

// The version of PyPI's `tokenizers` that scripts/python.lock pins.
inline constexpr char kTokenizersVersion[] = "0.22.1";

// A Hugging Face tokenizer: the tokenizers library in a Python process of its
// own (client/data/tokenizer_child.py).
//
// Python is STAGECOACH_PYTHON, else the python3 of PATH. The library is looked
// for in STAGECOACH_PYTHON_PACKAGES, else where scripts/python_env.sh puts it
// (stagecoach-python/ in XDG_CACHE_HOME or ~/.cache), else Python's own is
// taken.
//
// Thread-compatible; every call blocks. kCancelled when the interrupt is
// raised; kUnavailable if the process has ended; all others are as said.
class TokenizerProcess {
 public:
  // Starts it on a tokenizer.json. `interrupt`, which may be null, must outlive
  // it. kInvalidArgument: the file is no tokenizer; kNotFound: no Python, or
  // no library of the right version, with the remedy.
  static absl::StatusOr<std::unique_ptr<TokenizerProcess>> Start(
      const std::string& tokenizer_file, const Interrupt* interrupt);

  // All tokens are below this.
  int64_t vocabulary() const { return vocabulary_; }

  // The tokens of each text, without special ones. kInvalidArgument: a text is
  // not UTF-8; the message is its index.
  absl::StatusOr<std::vector<std::vector<uint32_t>>> EncodeTexts(
      const std::vector<std::string>& texts);
  // Of one text, with the special tokens that begin a prompt.
  absl::StatusOr<std::vector<uint32_t>> EncodePrompt(const std::string& text);
  absl::StatusOr<std::string> Decode(const std::vector<uint32_t>& tokens);
  // The token of this text, if there is one.
  absl::StatusOr<std::optional<uint32_t>> TokenOf(const std::string& text);

 private:
  TokenizerProcess(ChildProcess child, ChildLog log, const Interrupt* interrupt)
      : child_(std::move(child)), log_(std::move(log)), interrupt_(interrupt) {}
  absl::Status Greet(const std::string& tokenizer_file);
  absl::StatusOr<std::string> Ask(char what, absl::string_view payload);
  absl::StatusOr<std::string> ReadAnswer();
  absl::StatusOr<std::string> ReadBytes(size_t bytes);

  ChildProcess child_;
  ChildLog log_;
  const Interrupt* const interrupt_;
  int64_t vocabulary_ = 0;
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_DATA_TOKENIZER_PROCESS_H_
