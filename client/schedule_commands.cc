#include "client/schedule_commands.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/output/json.h"
#include "client/output/schedule_output.h"
#include "client/schedule_file.h"
#include "schedule/formats/formats.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"

namespace stagecoach::client {
namespace {

// ---- generate ---------------------------------------------------------------

struct GenerateArguments {
  std::string kind;
  schedule::GenerateOptions shape;
  schedule::LoweringOptions lowering;
  std::string out_file;
};

std::string InFormat(const std::string& format,
                     const schedule::Schedule& schedule) {
  if (format == "json") return schedule::ToJson(schedule);
  if (format == "proto") return schedule::ToProtoBytes(schedule);
  return schedule::ToText(schedule);
}

// Text forms end with a newline; bytes of a protobuf are left alone.
std::string WithNewline(std::string text, const std::string& format) {
  if (format != "proto" && (text.empty() || text.back() != '\n')) text += '\n';
  return text;
}

absl::StatusOr<int> Generate(GenerateArguments arguments, Context* context) {
  const schedule::Generator* generator =
      schedule::FindGenerator(arguments.kind);
  // A kind that is defined for one V only needs no flag for it.
  if (arguments.shape.stages_per_worker == 0) {
    arguments.shape.stages_per_worker =
        generator == nullptr ? 1
                             : std::max(1, generator->only_stages_per_worker);
  }
  SC_ASSIGN_OR_RETURN(const schedule::Schedule compute,
                      schedule::Generate(arguments.kind, arguments.shape));
  SC_ASSIGN_OR_RETURN(const schedule::Schedule schedule,
                      schedule::Lower(compute, arguments.lowering));
  SC_RETURN_IF_ERROR(VerifySchedule(schedule).ToStatus());
  const std::string text =
      WithNewline(InFormat(context->format, schedule), context->format);
  if (!arguments.out_file.empty()) {
    SC_RETURN_IF_ERROR(WriteFile(arguments.out_file, text));
  } else {
    *context->out << text << std::flush;
  }
  return kExitDone;
}

std::string KindsHelp() {
  std::string text = "Kind of schedule:";
  for (const schedule::Generator& generator : schedule::Generators()) {
    absl::StrAppend(&text, "\n  ", generator.kind, ": ", generator.description);
  }
  return text;
}

void AddGenerate(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "generate", "Make a schedule; -o text (default), json or proto",
      {"stagecoach schedule generate --kind 1f1b --workers 4 --microbatches 8",
       "stagecoach schedule generate --kind interleaved --workers 4 "
       "--stages-per-worker 2 --microbatches 16 -o json --out schedule.json"});
  auto arguments = std::make_shared<GenerateArguments>();
  verb->add_option("--kind", arguments->kind, KindsHelp())->required();
  verb->add_option("--workers", arguments->shape.workers, "Workers (P)")
      ->required();
  verb->add_option("--microbatches", arguments->shape.microbatches,
                   "Microbatches of a step (M)")
      ->required();
  arguments->shape.stages_per_worker = 0;
  verb->add_option("--stages-per-worker", arguments->shape.stages_per_worker,
                   "Stages of each worker (V)")
      ->check(CLI::PositiveNumber);
  verb->add_option("--send-budget", arguments->lowering.send_budget,
                   "Unacknowledged transfers per edge (K, default 2)")
      ->check(CLI::PositiveNumber);
  verb->add_flag("--tied", arguments->lowering.tied_embeddings,
                 "First and last stage share the embedding: add REDUCE_TIED");
  verb->add_option("--out", arguments->out_file,
                   "Write to this file instead of stdout");
  SetAction(verb, context,
            [arguments, context] { return Generate(*arguments, context); },
            {"text", "json", "proto"}, {"csv"});
}

// ---- verify -----------------------------------------------------------------

void PrintVerdict(const schedule::Verdict& verdict, const std::string& text,
                  Context* context) {
  if (context->json()) {
    Json document = VerdictJson(verdict);
    if (!verdict.ok) {
      AddError(kExitInvalid, verdict.ToStatus().message(), &document);
    }
    *context->out << Dump(document) << std::flush;
  } else {
    *context->out << text << std::flush;
  }
}

absl::StatusOr<int> Verify(const std::string& file, Context* context) {
  const absl::StatusOr<schedule::Schedule> schedule = LoadSchedule(file);
  if (!schedule.ok()) {
    PrintVerdict(UnreadableVerdict(schedule.status().message()), "", context);
    *context->error << schedule.status().message() << std::endl;
    return kExitInvalid;
  }
  const schedule::Verdict verdict = VerifySchedule(*schedule);
  PrintVerdict(verdict, VerdictText(*schedule, verdict), context);
  if (verdict.ok) return kExitDone;
  *context->error << file << ": " << verdict.ToStatus().message() << std::endl;
  return kExitInvalid;
}

void AddVerify(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "verify",
      "Prove a schedule: no deadlock, complete, in a legal order; refused ones "
      "end with exit code 2",
      {"stagecoach schedule verify schedule.json",
       "stagecoach schedule verify schedule.txt -o json"});
  auto file = std::make_shared<std::string>();
  verb->add_option("FILE", *file, "Schedule; - is standard input")->required();
  SetAction(verb, context, [file, context] { return Verify(*file, context); });
}

// ---- simulate ---------------------------------------------------------------

struct SimulateArguments {
  std::string file;
  std::string costs;
};

// Runs a schedule in the simulator; a refused one is the user's mistake.
absl::StatusOr<schedule::SimulateResult> RunSimulation(
    const std::string& file, const schedule::Schedule& schedule,
    const schedule::StageCosts& costs) {
  const absl::Status verdict = VerifySchedule(schedule).ToStatus();
  if (!verdict.ok()) return Annotate(verdict, file);
  schedule::SimulateOptions options;
  options.costs = {costs};
  absl::StatusOr<schedule::SimulateResult> result =
      schedule::Simulate(schedule, options);
  if (!result.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": ", result.status().message()));
  }
  return result;
}

absl::StatusOr<int> Simulate(const SimulateArguments& arguments,
                             Context* context) {
  SC_ASSIGN_OR_RETURN(const schedule::StageCosts costs,
                      ParseCosts(arguments.costs));
  SC_ASSIGN_OR_RETURN(const schedule::Schedule schedule,
                      LoadSchedule(arguments.file));
  SC_ASSIGN_OR_RETURN(const schedule::SimulateResult result,
                      RunSimulation(arguments.file, schedule, costs));
  *context->out << (context->json() ? Dump(SimulationJson(result))
                                    : SimulationText(schedule, result))
                << std::flush;
  return kExitDone;
}

void AddSimulate(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "simulate",
      "Time, bubble and microbatches in flight of a schedule",
      {"stagecoach schedule simulate schedule.json",
       "stagecoach schedule simulate schedule.txt --costs 1,1.2,0.8 -o json"});
  auto arguments = std::make_shared<SimulateArguments>();
  verb->add_option("FILE", arguments->file, "Schedule; - is standard input")
      ->required();
  verb->add_option("--costs", arguments->costs,
                   "F,B,W: one stage's forward, input gradient and weight "
                   "gradient (default 1,1,1)");
  SetAction(verb, context,
            [arguments, context] { return Simulate(*arguments, context); });
}

// ---- show -------------------------------------------------------------------

absl::StatusOr<int> Show(const std::string& file, Context* context) {
  SC_ASSIGN_OR_RETURN(const schedule::Schedule schedule, LoadSchedule(file));
  SC_ASSIGN_OR_RETURN(const schedule::SimulateResult result,
                      RunSimulation(file, schedule, schedule::StageCosts()));
  *context->out << (context->json()
                        ? Dump(TimelineJson(schedule, result))
                        : WithNewline(schedule::DrawTimeline(schedule), "text"))
                << std::flush;
  return kExitDone;
}

void AddShow(CLI::App* group, Context* context) {
  CLI::App* verb =
      AddVerb(group, "show", "Draw the timeline of a schedule",
              {"stagecoach schedule show schedule.json",
               "stagecoach schedule generate --kind 1f1b --workers "
               "4 --microbatches 8 | stagecoach schedule show -"});
  auto file = std::make_shared<std::string>();
  verb->add_option("FILE", *file, "Schedule; - is standard input")->required();
  SetAction(verb, context, [file, context] { return Show(*file, context); });
}

}  // namespace

void AddScheduleCommands(CLI::App* app, Context* context) {
  CLI::App* group =
      AddGroup(app, "schedule", "Schedules as files, without a cluster");
  AddGenerate(group, context);
  AddVerify(group, context);
  AddSimulate(group, context);
  AddShow(group, context);
}

}  // namespace stagecoach::client
