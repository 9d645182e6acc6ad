#include "client/schedule_commands.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/output/json.h"
#include "client/output/schedule_output.h"
#include "client/schedule_file.h"
#include "schedule/formats/diff.h"
#include "schedule/formats/draw_svg.h"
#include "schedule/formats/formats.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"

namespace stagecoach::client {
namespace {

// To a file, or to stdout if none is named.
absl::Status WriteResult(const std::string& text, const std::string& file,
                         Context* context) {
  if (!file.empty()) return WriteFile(file, text);
  *context->out << text << std::flush;
  return absl::OkStatus();
}

// ---- generate ---------------------------------------------------------------

struct GenerateArguments {
  std::string kind;
  schedule::GenerateOptions shape;
  schedule::LoweringOptions lowering;
  bool compute_only = false;
  std::string out_file;
};

absl::StatusOr<int> Generate(GenerateArguments arguments, Context* context) {
  const schedule::Generator* generator =
      schedule::FindGenerator(arguments.kind);
  // A kind that is defined for one V only needs no flag for it.
  if (arguments.shape.stages_per_worker == 0) {
    arguments.shape.stages_per_worker =
        generator == nullptr ? 1
                             : std::max(1, generator->only_stages_per_worker);
  }
  SC_ASSIGN_OR_RETURN(schedule::Schedule schedule,
                      schedule::Generate(arguments.kind, arguments.shape));
  if (!arguments.compute_only) {
    SC_ASSIGN_OR_RETURN(schedule,
                        schedule::Lower(schedule, arguments.lowering));
  }
  SC_RETURN_IF_ERROR(VerifySchedule(schedule).ToStatus());
  SC_ASSIGN_OR_RETURN(const std::string text,
                      InFormat(schedule, context->format));
  SC_RETURN_IF_ERROR(WriteResult(text, arguments.out_file, context));
  return kExitDone;
}

std::string KindsHelp() {
  std::string text = "Kind of schedule:";
  for (const schedule::Generator& generator : schedule::Generators()) {
    absl::StrAppend(&text, "\n  ", generator.kind, ": ", generator.description);
  }
  return text;
}

// As CLI11 shows a set of values; the generator's own message is better than
// CLI11's for a kind that is none.
std::string KindsSet() {
  return absl::StrCat(
      "{",
      absl::StrJoin(schedule::Generators(), ",",
                    [](std::string* out, const auto& generator) {
                      absl::StrAppend(out, generator.kind);
                    }),
      "}");
}

void AddGenerate(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "generate",
      "Make a schedule; -o text (default), json, proto, or csv as PyTorch "
      "writes and reads it",
      {"stagecoach schedule generate --kind 1f1b --workers 4 --microbatches 8",
       "stagecoach schedule generate --kind interleaved --workers 4 "
       "--stages-per-worker 2 --microbatches 16 -o json --out schedule.json",
       "stagecoach schedule generate --kind zbv --workers 4 --microbatches 8 "
       "--compute-only -o csv"});
  auto arguments = std::make_shared<GenerateArguments>();
  verb->add_option("--kind", arguments->kind, KindsHelp())
      ->required()
      ->type_name(KindsSet());
  verb->add_option("--workers", arguments->shape.workers, "Workers (P)")
      ->required();
  verb->add_option("--microbatches", arguments->shape.microbatches,
                   "Microbatches of a step (M)")
      ->required();
  arguments->shape.stages_per_worker = 0;
  verb->add_option("--stages-per-worker", arguments->shape.stages_per_worker,
                   "Stages of each worker (V)")
      ->check(CLI::PositiveNumber);
  verb->add_option("--max-in-flight", arguments->shape.max_in_flight,
                   "Most microbatches in flight on a worker (zb-h2)")
      ->check(CLI::PositiveNumber);
  verb->add_option(
          "--group-size", arguments->shape.group_size,
          "Microbatches that pass a stage before the next stage's turn "
          "(interleaved; default P)")
      ->check(CLI::PositiveNumber);
  verb->add_flag("--published-order", arguments->shape.published_order,
                 "As published, also where that does not add up microbatches "
                 "in ascending order (gpipe, looped-bfs)");
  verb->add_option("--send-budget", arguments->lowering.send_budget,
                   "Unacknowledged transfers per edge (K, default 2)")
      ->check(CLI::PositiveNumber);
  verb->add_flag("--tied", arguments->lowering.tied_embeddings,
                 "First and last stage share the embedding: add REDUCE_TIED");
  verb->add_flag("--compute-only", arguments->compute_only,
                 "Leave out communication");
  verb->add_option("--out", arguments->out_file,
                   "Write to this file instead of stdout");
  SetAction(verb, context,
            [arguments, context] { return Generate(*arguments, context); },
            {"text", "json", "proto", "csv"});
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

struct ShowArguments {
  std::string file;
  std::string picture;
};

absl::Status DrawPicture(const ShowArguments& arguments,
                         const schedule::Schedule& schedule) {
  if (!absl::EndsWithIgnoreCase(arguments.picture, ".svg")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out ", arguments.picture,
                     ": the picture is an SVG; give a name that ends in .svg"));
  }
  const absl::StatusOr<std::string> svg = schedule::DrawSvg(schedule);
  if (!svg.ok()) return Annotate(svg.status(), arguments.file);
  return WriteFile(arguments.picture, *svg);
}

absl::StatusOr<int> Show(const ShowArguments& arguments, Context* context) {
  SC_ASSIGN_OR_RETURN(const schedule::Schedule schedule,
                      LoadSchedule(arguments.file));
  SC_ASSIGN_OR_RETURN(
      const schedule::SimulateResult result,
      RunSimulation(arguments.file, schedule, schedule::StageCosts()));
  const bool draws = !arguments.picture.empty();
  if (draws) SC_RETURN_IF_ERROR(DrawPicture(arguments, schedule));
  if (context->json()) {
    *context->out << Dump(TimelineJson(schedule, result)) << std::flush;
  } else if (!draws) {
    *context->out << WithNewline(schedule::DrawTimeline(schedule))
                  << std::flush;
  }
  return kExitDone;
}

void AddShow(CLI::App* group, Context* context) {
  CLI::App* verb =
      AddVerb(group, "show",
              "Draw the timeline of a schedule, as text or into a picture",
              {"stagecoach schedule show schedule.json",
               "stagecoach schedule show schedule.json --out picture.svg",
               "stagecoach schedule generate --kind 1f1b --workers "
               "4 --microbatches 8 | stagecoach schedule show -"});
  auto arguments = std::make_shared<ShowArguments>();
  verb->add_option("FILE", arguments->file, "Schedule; - is standard input")
      ->required();
  verb->add_option("--out", arguments->picture,
                   "Draw an SVG picture into this file instead");
  SetAction(verb, context,
            [arguments, context] { return Show(*arguments, context); });
}

// ---- convert ----------------------------------------------------------------

struct ConvertArguments {
  std::string file;
  std::string to;
  bool compute_only = false;
  std::string out_file;
};

absl::StatusOr<int> Convert(const ConvertArguments& arguments,
                            Context* context) {
  if (!context->format.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("leave out -o ", context->format,
                     ": `schedule convert` writes the form that --to names"));
  }
  SC_ASSIGN_OR_RETURN(schedule::Schedule schedule,
                      LoadSchedule(arguments.file));
  if (arguments.compute_only) schedule = ComputeOnly(std::move(schedule));
  SC_ASSIGN_OR_RETURN(const std::string text, InFormat(schedule, arguments.to));
  SC_RETURN_IF_ERROR(WriteResult(text, arguments.out_file, context));
  return kExitDone;
}

void AddConvert(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "convert",
      "Write a schedule in another form; any form is read. CSV is PyTorch's: "
      "it has compute actions, sends and receives, and leaves out the rest",
      {"stagecoach schedule convert schedule.csv --to json --out schedule.json",
       "stagecoach schedule convert schedule.json --to csv --compute-only"});
  auto arguments = std::make_shared<ConvertArguments>();
  verb->add_option("FILE", arguments->file, "Schedule; - is standard input")
      ->required();
  verb->add_option("--to", arguments->to, "text, json, proto or csv")
      ->required()
      ->check(CLI::IsMember({"text", "json", "proto", "csv"}));
  verb->add_flag("--compute-only", arguments->compute_only,
                 "Leave out communication");
  verb->add_option("--out", arguments->out_file,
                   "Write to this file instead of stdout");
  // Convert itself refuses every -o, with what to do instead.
  SetAction(verb, context,
            [arguments, context] { return Convert(*arguments, context); },
            {"table", "text", "json", "proto", "csv"});
}

// ---- diff -------------------------------------------------------------------

struct DiffArguments {
  std::string left;
  std::string right;
};

absl::StatusOr<int> Diff(const DiffArguments& arguments, Context* context) {
  if (arguments.left == "-" && arguments.right == "-") {
    return absl::InvalidArgumentError(
        "standard input can be only one of the two schedules; name a file for "
        "the other");
  }
  SC_ASSIGN_OR_RETURN(const schedule::Schedule left,
                      LoadSchedule(arguments.left));
  SC_ASSIGN_OR_RETURN(const schedule::Schedule right,
                      LoadSchedule(arguments.right));
  const schedule::ScheduleDifference difference = schedule::Diff(left, right);
  *context->out << (context->json() ? Dump(DifferenceJson(difference))
                                    : DifferenceText(difference))
                << std::flush;
  return difference.empty() ? kExitDone : kExitInternal;
}

void AddDiff(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "diff",
      "Compare two schedules: the first action that differs on each worker; "
      "exit code 0 if they are equal, 1 if not",
      {"stagecoach schedule diff a.json b.csv",
       "stagecoach schedule diff a.json b.txt -o json"});
  auto arguments = std::make_shared<DiffArguments>();
  verb->add_option("A", arguments->left, "Schedule; - is standard input")
      ->required();
  verb->add_option("B", arguments->right, "Schedule; - is standard input")
      ->required();
  SetAction(verb, context,
            [arguments, context] { return Diff(*arguments, context); });
}

}  // namespace

void AddScheduleCommands(CLI::App* app, Context* context) {
  CLI::App* group =
      AddGroup(app, "schedule", "Schedules as files, without a cluster");
  AddGenerate(group, context);
  AddVerify(group, context);
  AddSimulate(group, context);
  AddShow(group, context);
  AddConvert(group, context);
  AddDiff(group, context);
}

}  // namespace stagecoach::client
