#include "client/data/tokenizer_process.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "client/data/tokenizer_child.h"

namespace stagecoach::client {
namespace {

// How long Ctrl-C may go unnoticed.
constexpr absl::Duration kReadSlice = absl::Milliseconds(200);
constexpr int kTailLines = 10;
constexpr char kDone = 0;

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<std::string> FindPython() {
  std::string python = Variable("STAGECOACH_PYTHON");
  if (!python.empty()) return python;
  for (const absl::string_view folder :
       absl::StrSplit(Variable("PATH"), ':', absl::SkipEmpty())) {
    python = absl::StrCat(folder, "/python3");
    if (access(python.c_str(), X_OK) == 0) return python;
  }
  return absl::NotFoundError(
      "tokenizers need Python: there is no python3 in PATH; install it, or "
      "name one with STAGECOACH_PYTHON");
}

// Empty: Python's own packages.
std::string FindPackages() {
  std::string named = Variable("STAGECOACH_PYTHON_PACKAGES");
  if (!named.empty()) return named;
  std::string cache = Variable("XDG_CACHE_HOME");
  if (cache.empty()) cache = Variable("HOME") + "/.cache";
  const std::string folder =
      absl::StrCat(cache, "/stagecoach-python/tokenizers-", kTokenizersVersion);
  return access(folder.c_str(), R_OK) == 0 ? folder : "";
}

std::string Remedy(const std::string& python) {
  return absl::StrCat("; get version ", kTokenizersVersion,
                      " by scripts/python_env.sh, or by \"", python,
                      " -m pip install tokenizers==", kTokenizersVersion, "\"");
}

void AppendNumber(uint32_t number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

std::vector<uint32_t> NumbersOf(absl::string_view bytes) {
  std::vector<uint32_t> numbers(bytes.size() / sizeof(uint32_t));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(uint32_t));
  return numbers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenizerProcess>> TokenizerProcess::Start(
    const std::string& tokenizer_file, const Interrupt* interrupt) {
  SC_ASSIGN_OR_RETURN(const std::string python, FindPython());
  SC_ASSIGN_OR_RETURN(ChildLog log, ChildLog::Temporary());
  SpawnOptions spawn;
  spawn.program = python;
  spawn.arguments = {"-c", kTokenizerChild, tokenizer_file, kTokenizersVersion,
                     FindPackages()};
  spawn.stderr_file = log.path();
  spawn.pipe_stdin = true;
  spawn.pipe_stdout = true;
  // It ends when its stdin does.
  spawn.die_with_parent = false;
  SC_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Spawn(spawn));
  std::unique_ptr<TokenizerProcess> process(
      new TokenizerProcess(std::move(child), std::move(log), interrupt));
  absl::Status status = process->Greet(tokenizer_file);
  if (absl::IsNotFound(status)) {
    return absl::NotFoundError(absl::StrCat(status.message(), Remedy(python)));
  }
  if (!status.ok()) return status;
  return process;
}

absl::Status TokenizerProcess::Greet(const std::string& tokenizer_file) {
  const absl::StatusOr<std::string> answer = ReadAnswer();
  if (answer.ok()) {
    const std::vector<uint32_t> numbers = NumbersOf(*answer);
    if (numbers.size() == 1) vocabulary_ = numbers[0];
    return absl::OkStatus();
  }
  if (!absl::IsInvalidArgument(answer.status()) ||
      absl::StartsWith(answer.status().message(), tokenizer_file)) {
    return answer.status();
  }
  return absl::NotFoundError(answer.status().message());
}

absl::StatusOr<std::string> TokenizerProcess::ReadBytes(size_t bytes) {
  while (true) {
    absl::StatusOr<std::string> read = child_.ReadBytes(bytes, kReadSlice);
    if (absl::IsUnavailable(read.status())) {
      return absl::UnavailableError(absl::StrCat(
          "the tokenizer's Python process has ended; the end of its log:\n",
          absl::StripSuffix(log_.Tail(kTailLines), "\n")));
    }
    if (read.ok() || !absl::IsDeadlineExceeded(read.status())) return read;
    if (interrupt_ != nullptr && interrupt_->IsRaised()) {
      return absl::CancelledError("interrupted");
    }
  }
}

absl::StatusOr<std::string> TokenizerProcess::ReadAnswer() {
  SC_ASSIGN_OR_RETURN(const std::string head, ReadBytes(5));
  const uint32_t length = NumbersOf(absl::string_view(head).substr(1))[0];
  SC_ASSIGN_OR_RETURN(std::string payload, ReadBytes(length));
  if (head[0] == kDone) return payload;
  return absl::InvalidArgumentError(payload);
}

absl::StatusOr<std::string> TokenizerProcess::Ask(char what,
                                                  absl::string_view payload) {
  std::string head(1, what);
  AppendNumber(static_cast<uint32_t>(payload.size()), &head);
  // If it has ended, reading says so with its last words.
  if (child_.Write(head).ok()) child_.Write(payload).IgnoreError();
  return ReadAnswer();
}

absl::StatusOr<std::vector<std::vector<uint32_t>>>
TokenizerProcess::EncodeTexts(const std::vector<std::string>& texts) {
  std::string payload;
  AppendNumber(static_cast<uint32_t>(texts.size()), &payload);
  for (const std::string& text : texts) {
    AppendNumber(static_cast<uint32_t>(text.size()), &payload);
  }
  for (const std::string& text : texts) payload += text;
  SC_ASSIGN_OR_RETURN(const std::string answer, Ask('E', payload));
  const std::vector<uint32_t> numbers = NumbersOf(answer);
  size_t sum = texts.size();
  for (size_t i = 0; i < texts.size() && i < numbers.size(); ++i) {
    sum += numbers[i];
  }
  if (sum != numbers.size()) {
    return absl::InternalError("the tokenizer's answer does not add up");
  }
  std::vector<std::vector<uint32_t>> tokens;
  auto next = numbers.begin() + static_cast<ptrdiff_t>(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto end = next + static_cast<ptrdiff_t>(numbers[i]);
    tokens.emplace_back(next, end);
    next = end;
  }
  return tokens;
}

absl::StatusOr<std::vector<uint32_t>> TokenizerProcess::EncodePrompt(
    const std::string& text) {
  SC_ASSIGN_OR_RETURN(const std::string answer, Ask('P', text));
  return NumbersOf(answer);
}

absl::StatusOr<std::string> TokenizerProcess::Decode(
    const std::vector<uint32_t>& tokens) {
  std::string payload;
  for (const uint32_t token : tokens) AppendNumber(token, &payload);
  return Ask('D', payload);
}

absl::StatusOr<std::optional<uint32_t>> TokenizerProcess::TokenOf(
    const std::string& text) {
  SC_ASSIGN_OR_RETURN(const std::string answer, Ask('I', text));
  const std::vector<uint32_t> numbers = NumbersOf(answer);
  if (numbers.empty()) return std::optional<uint32_t>();
  return std::optional<uint32_t>(numbers[0]);
}

}  // namespace stagecoach::client
