#include "client/generate_command.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/status.h"
#include "client/call_worker.h"
#include "client/command_line.h"
#include "client/daemon_binary.h"
#include "client/data/tokenizer_codec.h"
#include "client/data/tokenizer_process.h"
#include "client/exit_codes.h"
#include "client/generation_source.h"
#include "client/output/json.h"
#include "client/signals.h"
#include "client/text_codec.h"
#include "stage_worker/generate/request.h"

namespace stagecoach::client {
namespace {

struct GenerateArguments {
  std::string checkpoint;
  std::string prompt;
  std::string tokenizer;
  int64_t tokens = 100;
  double temperature = 0.8;
  int64_t top_k = 0;
  int64_t seed = 7;
  int64_t threads = 0;  // 0: as many as the machine has cores
};

// What has been generated so far.
struct Generated {
  std::vector<int64_t> tokens;
  std::string text;
  absl::Duration taken;
  const char* end = "length";
};

absl::Status CheckArguments(const GenerateArguments& arguments) {
  if (arguments.prompt.empty()) {
    return absl::InvalidArgumentError(
        "--prompt is empty: a model needs at least one token to go on from");
  }
  return absl::OkStatus();
}

worker::GenerateRequest RequestOf(const GenerateArguments& arguments,
                                  const GenerationSource& source) {
  worker::GenerateRequest request;
  request.checkpoint = source.folder;
  request.tokens = arguments.tokens;
  request.temperature = arguments.temperature;
  request.top_k = arguments.top_k;
  request.seed = arguments.seed;
  if (source.tokenizer.empty()) request.token_limit = 256;
  request.stop = source.end_tokens;
  request.threads = arguments.threads;
  if (request.threads == 0) {
    request.threads = std::max(1U, std::thread::hardware_concurrency());
  }
  return request;
}

// Takes tokens from the worker and puts their text out as it comes.
class Printer {
 public:
  Printer(TextCodec* codec, Context* context)
      : codec_(codec), context_(context) {}

  void TakeLine(const std::string& line) {
    if (!status_.ok()) return;
    int64_t token = 0;
    if (!absl::SimpleAtoi(line, &token)) {
      status_ = absl::InternalError(
          absl::StrCat("the worker printed no token but \"", line, "\""));
      return;
    }
    generated.tokens.push_back(token);
    Take(codec_->Append(token));
  }
  absl::Status Finish() {
    if (status_.ok()) Take(codec_->Finish());
    if (!context_->json()) *context_->out << std::endl;
    return status_;
  }

  Generated generated;

 private:
  void Take(const absl::StatusOr<std::string>& text) {
    status_ = text.status();
    if (!text.ok()) return;
    generated.text += *text;
    if (!context_->json()) *context_->out << *text << std::flush;
  }

  TextCodec* const codec_;
  Context* const context_;
  absl::Status status_;
};

Json GeneratedJson(const GenerationSource& source, const std::string& prompt,
                   size_t prompt_tokens, const Generated& generated) {
  const double seconds = absl::ToDoubleSeconds(generated.taken);
  Json document = Json::object();
  document["checkpoint"] = source.folder;
  document["prompt"] = prompt;
  document["prompt_tokens"] = prompt_tokens;
  document["text"] = generated.text;
  document["tokens"] = generated.tokens;
  document["end"] = generated.end;
  document["seconds"] = seconds;
  document["tokens_per_second"] =
      static_cast<double>(generated.tokens.size()) / seconds;
  return document;
}

// Why the worker made no more.
const char* EndOf(const worker::GenerateRequest& request,
                  const std::vector<int64_t>& tokens) {
  const bool stopped =
      !tokens.empty() && std::find(request.stop.begin(), request.stop.end(),
                                   tokens.back()) != request.stop.end();
  return stopped ? "stop" : "length";
}

absl::StatusOr<std::unique_ptr<TextCodec>> NewCodec(
    const GenerationSource& source, const Interrupt& interrupt) {
  if (source.tokenizer.empty()) return NewByteCodec();
  SC_ASSIGN_OR_RETURN(auto tokenizer,
                      TokenizerProcess::Start(source.tokenizer, &interrupt));
  return NewTokenizerCodec(std::move(tokenizer));
}

absl::StatusOr<int> Generate(const GenerateArguments& arguments,
                             Context* context) {
  SC_RETURN_IF_ERROR(CheckArguments(arguments));
  SC_ASSIGN_OR_RETURN(
      const GenerationSource source,
      FindGenerationSource(arguments.checkpoint, arguments.tokenizer));
  for (const std::string& warning : source.warnings) {
    *context->error << "stagecoach: " << warning << "\n";
  }
  Interrupt* const interrupt = InterruptOnSignals(kExitInterrupted);
  SC_ASSIGN_OR_RETURN(const std::unique_ptr<TextCodec> codec,
                      NewCodec(source, *interrupt));
  WorkerCall call;
  SC_ASSIGN_OR_RETURN(call.binary,
                      FindDaemon(WorkerBinary(), ExecutableFolder()));
  worker::GenerateRequest request = RequestOf(arguments, source);
  SC_ASSIGN_OR_RETURN(request.prompt, codec->Encode(arguments.prompt));
  call.flag = "--generate";
  call.request = worker::GenerateRequestToJson(request);
  call.doing = "generates";
  if (!context->json()) *context->out << arguments.prompt << std::flush;
  Printer printer(codec.get(), context);
  const absl::Time start = Clock::Real()->Now();
  const absl::Status called = CallWorker(
      call, *interrupt,
      [&printer](const std::string& line) { printer.TakeLine(line); });
  Generated& generated = printer.generated;
  generated.taken = Clock::Real()->Now() - start;
  const absl::Status printed = printer.Finish();
  const bool interrupted = absl::IsCancelled(called);
  if (!interrupted) SC_RETURN_IF_ERROR(called);
  SC_RETURN_IF_ERROR(printed);
  generated.end = interrupted ? "interrupt" : EndOf(request, generated.tokens);
  if (context->json()) {
    *context->out << Dump(GeneratedJson(source, arguments.prompt,
                                        request.prompt.size(), generated))
                  << std::flush;
  }
  return interrupted ? kExitInterrupted : kExitDone;
}

}  // namespace

void AddGenerateCommand(CLI::App* app, Context* context) {
  CLI::App* verb = AddVerb(
      app, "generate",
      "Let a trained model continue a text, to see what it has learned; needs "
      "no cluster: one worker process runs the model on the CPU",
      {"stagecoach generate checkpoints --prompt \"The coach\"",
       "stagecoach generate Llama-3.2-1B --prompt Hello --tokens 50 "
       "--temperature 0",
       "stagecoach generate checkpoints/step-00000050 --prompt Hello --top-k "
       "40 --seed 1 -o json"});
  auto arguments = std::make_shared<GenerateArguments>();
  verb->add_option("CHECKPOINT", arguments->checkpoint,
                   "A checkpoint, a directory of them (its newest sound one), "
                   "or a Hugging Face folder")
      ->required();
  verb->add_option("--prompt", arguments->prompt, "The text to go on from")
      ->required();
  verb->add_option("--tokens", arguments->tokens, "Tokens to make, at most")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  verb->add_option("--temperature", arguments->temperature,
                   "0: always the likeliest token; more: the more surprising")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->add_option("--top-k", arguments->top_k,
                   "Choose only among the k likeliest tokens; 0: among all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  verb->add_option("--seed", arguments->seed,
                   "Decides the choices: the same gives the same text")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->add_option("--tokenizer", arguments->tokenizer,
                   "The model's tokenizer.json (default: the one beside the "
                   "weights or the job's data)");
  verb->add_option("--threads", arguments->threads,
                   "Threads within one operation; 0: one for each core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  SetAction(verb, context,
            [arguments, context] { return Generate(*arguments, context); });
}

}  // namespace stagecoach::client
