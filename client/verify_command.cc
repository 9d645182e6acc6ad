#include "client/verify_command.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/output/comparison.h"
#include "client/output/json.h"
#include "client/run_job.h"
#include "client/signals.h"
#include "client/spec_arguments.h"

namespace stagecoach::client {
namespace {

struct VerifyArguments {
  SpecArguments spec;
  int64_t steps = 0;  // 0: as the spec says
};

// One of the two jobs did not end well: there is nothing to compare.
int ReportUnfinished(const std::string& which, const RunOutcome& outcome,
                     Context* context) {
  const std::string message = absl::StrCat(which, ": ", outcome.message);
  if (context->json()) {
    Json document = Json::object();
    document["equal"] = nullptr;
    AddError(outcome.exit_code, message, &document);
    *context->out << Dump(document) << std::flush;
  }
  *context->error << "stagecoach: " << message << "\n" << outcome.details;
  return outcome.exit_code;
}

int Report(const v1::Job& job, const v1::Job& reference, Context* context) {
  const Comparison comparison = Compare(job, reference);
  const int exit_code = comparison.equal ? kExitDone : kExitInternal;
  if (context->json()) {
    Json document = ComparisonJson(comparison, job, reference);
    if (!comparison.equal) {
      AddError(exit_code, comparison.difference, &document);
    }
    *context->out << Dump(document) << std::flush;
  } else {
    *context->out << ComparisonText(comparison, job, reference) << std::flush;
  }
  if (!comparison.equal) {
    *context->error << "stagecoach: not equal to a single process: "
                    << comparison.difference << "\n";
  }
  return exit_code;
}

absl::StatusOr<int> Verify(VerifyArguments arguments, Context* context) {
  if (arguments.steps != 0) {
    arguments.spec.overrides.push_back(
        absl::StrCat("training.steps=", arguments.steps));
  }
  SC_ASSIGN_OR_RETURN(CheckedSpec checked, LoadSpec(arguments.spec));
  // A check leaves no checkpoints.
  job::JobSpec spec = checked.spec();
  spec.checkpoint = job::CheckpointSpec();
  Interrupt* const interrupt = InterruptOnSignals(kExitCancelled);
  RunOptions options;
  options.local = true;
  *context->error << "the job, on " << spec.pipeline.workers << " workers"
                  << std::endl;
  const RunOutcome job = RunJob(spec, options, interrupt, context);
  if (job.exit_code != kExitDone) {
    return ReportUnfinished("the job", job, context);
  }
  *context->error << "the same in a single process" << std::endl;
  const RunOutcome reference =
      RunJob(SingleProcessSpec(spec), options, interrupt, context);
  if (reference.exit_code != kExitDone) {
    return ReportUnfinished("the single process", reference, context);
  }
  return Report(job.job, reference.job, context);
}

}  // namespace

job::JobSpec SingleProcessSpec(const job::JobSpec& spec) {
  job::JobSpec single = spec;
  single.name = absl::StrCat(spec.name, " (single process)");
  single.pipeline = job::PipelineSpec();
  single.pipeline.workers = 1;
  single.pipeline.stages_per_worker = 1;
  single.pipeline.schedule = "gpipe";
  single.checkpoint = job::CheckpointSpec();
  // One worker holds the whole model: the job's limit is not for it.
  single.memory = job::MemorySpec();
  return single;
}

void AddVerifyCommand(CLI::App* app, Context* context) {
  CLI::App* verb = AddVerb(
      app, "verify",
      "Run a job on a private cluster and in a single process, and compare "
      "every loss, gradient norm and parameter to the last bit",
      {"stagecoach verify examples/tiny.toml --steps 5",
       "stagecoach verify job.toml --set pipeline.schedule=interleaved "
       "--set pipeline.stages_per_worker=2"});
  auto arguments = std::make_shared<VerifyArguments>();
  AddSpecArguments(verb, &arguments->spec);
  verb->add_option("--steps", arguments->steps,
                   "Short for --set training.steps=N; the learning-rate "
                   "schedule spans these steps")
      ->check(CLI::PositiveNumber);
  SetAction(verb, context,
            [arguments, context] { return Verify(*arguments, context); });
}

}  // namespace stagecoach::client
