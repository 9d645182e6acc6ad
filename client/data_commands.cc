#include "client/data_commands.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status.h"
#include "client/command_line.h"
#include "client/data/prepare.h"
#include "client/data/tokenizer_process.h"
#include "client/exit_codes.h"
#include "client/output/json.h"
#include "client/output/text.h"
#include "client/signals.h"

namespace stagecoach::client {
namespace {

struct PrepareArguments {
  PrepareOptions options;
  std::string input_format = "auto";
  std::string format = "plain";
};

// ---- progress ---------------------------------------------------------------

constexpr int kBarWidth = 20;
constexpr absl::Duration kRedraw = absl::Milliseconds(100);

// `tokenized 42 % [=====>      ] 1.35M tokens  12.3 MB/s  5.2 s left`, drawn
// again and again on a terminal; elsewhere nothing.
class PrepareBar {
 public:
  explicit PrepareBar(Context* context)
      : context_(context), start_(Clock::Real()->Now()) {}
  ~PrepareBar() {
    if (drawn_) *context_->error << "\r\x1b[K" << std::flush;
  }

  void Show(const PrepareProgress& progress) {
    const absl::Time now = Clock::Real()->Now();
    if (!context_->error_is_terminal || now - last_ < kRedraw) return;
    last_ = now;
    drawn_ = true;
    const double seconds = absl::ToDoubleSeconds(now - start_);
    const double read = static_cast<double>(progress.bytes_read);
    const double part = read / static_cast<double>(progress.bytes);
    const int filled = static_cast<int>(part * kBarWidth);
    std::string line = absl::StrFormat(
        "tokenized %2.0f %% [%s>%s] %s tokens  %.1f MB/s  %s left", part * 100,
        std::string(static_cast<size_t>(filled), '='),
        std::string(static_cast<size_t>(kBarWidth - filled), ' '),
        FormatShort(static_cast<double>(progress.tokens)), read / seconds / 1e6,
        FormatSeconds(seconds / part - seconds));
    line.resize(std::min(line.size(),
                         static_cast<size_t>(std::max(1, context_->columns))));
    *context_->error << "\r\x1b[K" << line << std::flush;
  }

 private:
  Context* const context_;
  const absl::Time start_;
  absl::Time last_ = absl::InfinitePast();
  bool drawn_ = false;
};

// ---- results ----------------------------------------------------------------

Json PartJson(const Prepared::Part& part) {
  Json json = Json::object();
  json["path"] = part.path;
  json["documents"] = part.documents;
  json["tokens"] = part.tokens;
  return json;
}

Json PreparedJson(const Prepared& prepared, const std::string& format,
                  double seconds) {
  Json document = Json::object();
  document["format"] = format;
  document["token_type"] = prepared.token_type;
  document["vocabulary"] = prepared.vocabulary;
  if (prepared.end_token_id.has_value()) {
    document["end_token"] = prepared.end_token;
    document["end_token_id"] = *prepared.end_token_id;
  } else {
    document["end_token"] = nullptr;
    document["end_token_id"] = nullptr;
  }
  document["training"] = PartJson(prepared.training);
  document["validation"] = prepared.validation.has_value()
                               ? PartJson(*prepared.validation)
                               : Json(nullptr);
  document["skipped"] = prepared.skipped;
  document["bytes"] = prepared.bytes;
  document["seconds"] = seconds;
  document["files"] = prepared.files;
  return document;
}

std::string PartText(const char* name, const Prepared::Part& part) {
  return absl::StrCat(name, part.path, ": ", FormatCount(part.tokens),
                      " tokens of ", Plural(part.documents, "document"), "\n");
}

// With the lines of a spec that would train on it.
std::string PreparedText(const Prepared& prepared, bool megatron) {
  std::string text = PartText("", prepared.training);
  if (prepared.validation.has_value()) {
    text += PartText("", *prepared.validation);
  }
  absl::StrAppend(
      &text, "each document ends with ",
      prepared.end_token_id.has_value()
          ? absl::StrCat(prepared.end_token, " (", *prepared.end_token_id, ")")
          : "no token of its own",
      "\n");
  if (prepared.skipped > 0) {
    absl::StrAppend(&text, "skipped ", Plural(prepared.skipped, "bad line"),
                    "\n");
  }
  absl::StrAppend(&text, "\n[model]\nvocabulary = ", prepared.vocabulary,
                  "\n[data]\nkind = \"", megatron ? "megatron" : "tokens",
                  "\"\npath = \"", prepared.training.path, "\"\n");
  if (!megatron) {
    absl::StrAppend(&text, "token_type = \"", prepared.token_type, "\"\n");
  }
  if (prepared.validation.has_value()) {
    absl::StrAppend(&text, "[evaluation]\npath = \"", prepared.validation->path,
                    "\"\n");
  }
  return text;
}

// ---- the verb ---------------------------------------------------------------

absl::Status Complete(PrepareArguments* arguments) {
  PrepareOptions& options = arguments->options;
  if (!absl::EndsWith(options.output, ".bin")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--output ", options.output, " must end in .bin"));
  }
  options.input.json_lines =
      arguments->input_format == "auto"
          ? absl::EndsWith(options.input.path, ".jsonl") ||
                absl::EndsWith(options.input.path, ".ndjson")
          : arguments->input_format == "jsonl";
  options.megatron = arguments->format == "megatron";
  return absl::OkStatus();
}

absl::StatusOr<int> Prepare(PrepareArguments arguments, Context* context) {
  SC_RETURN_IF_ERROR(Complete(&arguments));
  const absl::Time start = Clock::Real()->Now();
  Interrupt* const interrupt = InterruptOnSignals(kExitInterrupted);
  SC_ASSIGN_OR_RETURN(
      const auto tokenizer,
      TokenizerProcess::Start(arguments.options.tokenizer, interrupt));
  absl::StatusOr<Prepared> prepared;
  {
    PrepareBar bar(context);
    prepared = PrepareData(
        arguments.options, tokenizer.get(),
        [&bar](const PrepareProgress& progress) { bar.Show(progress); });
  }
  if (absl::IsCancelled(prepared.status())) {
    *context->error << "stagecoach: interrupted; nothing was written\n";
    return kExitInterrupted;
  }
  SC_RETURN_IF_ERROR(prepared.status());
  const double seconds = absl::ToDoubleSeconds(Clock::Real()->Now() - start);
  *context->out << (context->json()
                        ? Dump(PreparedJson(*prepared, arguments.format,
                                            seconds))
                        : PreparedText(*prepared, arguments.options.megatron))
                << std::flush;
  return kExitDone;
}

void AddPrepare(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "prepare",
      "Turn text into files of tokens that a job trains on, with a Hugging "
      "Face tokenizer. The files appear whole or not at all",
      {"stagecoach data prepare --input corpus.jsonl --tokenizer "
       "tokenizer.json --output corpus.bin",
       "stagecoach data prepare --input book.txt --tokenizer "
       "gpt2/tokenizer.json --output book.bin --validation 0.1",
       "stagecoach data prepare --input corpus.jsonl --field body --skip-bad "
       "--tokenizer tokenizer.json --output corpus.bin --format megatron"});
  auto arguments = std::make_shared<PrepareArguments>();
  PrepareOptions& options = arguments->options;
  verb->add_option("--input", options.input.path,
                   "JSON lines, one document each, or a plain text")
      ->required();
  verb->add_option("--input-format", arguments->input_format,
                   "jsonl or text (auto: by the name, .jsonl and .ndjson are "
                   "JSON lines)")
      ->check(CLI::IsMember({"auto", "jsonl", "text"}))
      ->capture_default_str();
  verb->add_option("--field", options.input.field,
                   "Field of a JSON line that holds the text")
      ->capture_default_str();
  verb->add_flag("--skip-bad", options.input.skip_bad,
                 "Pass over lines that are no such object, and count them");
  verb->add_option("--tokenizer", options.tokenizer,
                   "Hugging Face's tokenizer.json")
      ->required();
  verb->add_option("--output", options.output, "NAME.bin; must not be there")
      ->required();
  verb->add_option("--format", arguments->format,
                   "plain: tokens and nothing else; megatron: with an .idx "
                   "beside it that knows the documents")
      ->check(CLI::IsMember({"plain", "megatron"}))
      ->capture_default_str();
  verb->add_option("--validation", options.validation,
                   "Part of the documents, or of a plain text's end, that "
                   "goes into NAME.validation.bin instead")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  verb->add_option("--end-token", options.end_token,
                   "Token behind each document, as the tokenizer writes it, "
                   "or none (default: <|endoftext|>, </s> or their like)");
  SetAction(verb, context,
            [arguments, context] { return Prepare(*arguments, context); });
}

}  // namespace

void AddDataCommands(CLI::App* app, Context* context) {
  CLI::App* group = AddGroup(app, "data", "What a job is to train on");
  AddPrepare(group, context);
}

}  // namespace stagecoach::client
