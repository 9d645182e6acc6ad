#include "client/run_command.h"

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/output/job_output.h"
#include "client/output/json.h"
#include "client/run_job.h"
#include "client/signals.h"
#include "client/spec_arguments.h"

namespace stagecoach::client {
namespace {

struct RunArguments {
  SpecArguments spec;
  RunOptions options;
};

void PrintOutcome(const RunOutcome& outcome, Context* context) {
  const bool has_job = !outcome.job.id().empty();
  if (context->json()) {
    Json document = has_job ? JobJson(outcome.job) : Json(Json::object());
    if (outcome.exit_code != kExitDone) {
      AddError(outcome.exit_code, outcome.message, &document);
    }
    *context->out << Dump(document);
  } else if (has_job) {
    *context->out << JobText(outcome.job);
  }
  context->out->flush();
  if (outcome.message.empty()) return;
  *context->error << "stagecoach: " << outcome.message << "\n"
                  << outcome.details << std::flush;
}

absl::StatusOr<int> Run(const RunArguments& arguments, Context* context) {
  SC_ASSIGN_OR_RETURN(const CheckedSpec spec, LoadSpec(arguments.spec));
  Interrupt* const interrupt = InterruptOnSignals(
      arguments.options.local ? kExitCancelled : kExitInterrupted);
  const RunOutcome outcome =
      RunJob(spec.spec(), arguments.options, interrupt, context);
  PrintOutcome(outcome, context);
  return outcome.exit_code;
}

}  // namespace

void AddRunCommand(CLI::App* app, Context* context) {
  CLI::App* verb = AddVerb(
      app, "run",
      "Submit a job, follow it to its end, print a summary. Ctrl-C cancels it",
      {"stagecoach run examples/tiny.toml --local",
       "stagecoach run job.toml --set training.steps=5 -o json",
       "stagecoach run job.toml --local --transport shm --keep-logs logs",
       "stagecoach run job.toml --local --resume",
       "stagecoach --endpoint 10.0.0.1:7070 run job.toml"});
  auto arguments = std::make_shared<RunArguments>();
  AddSpecArguments(verb, &arguments->spec);
  CLI::Option* local = verb->add_flag(
      "--local", arguments->options.local,
      "Start a private coordinator and pipeline.workers workers on this "
      "machine, and leave nothing of them; a worker that ends is started "
      "again, recovery.max_failures times");
  AddResumeFlag(verb, &arguments->options.resume);
  verb->add_option("--keep-logs", arguments->options.log_folder,
                   "With --local: keep the processes' logs in this folder")
      ->needs(local);
  SetAction(verb, context,
            [arguments, context] { return Run(*arguments, context); });
}

}  // namespace stagecoach::client
