#include "client/memory_commands.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/bytes.h"
#include "base/status.h"
#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/interrupt.h"
#include "client/job_client.h"
#include "client/output/held_output.h"
#include "client/output/json.h"
#include "client/output/memory_output.h"
#include "client/schedule_file.h"
#include "client/signals.h"

namespace stagecoach::client {
namespace {

constexpr char kJobHelp[] =
    "Id of the job (default: the running one, or the last)";

struct StatsArguments {
  std::string job_id;
  std::string by;
  bool watch = false;
  int64_t interval_milliseconds = 1000;
};

// The words of --by.
const std::map<std::string, MemoryGroup>& Groups() {
  static const auto* const groups = new std::map<std::string, MemoryGroup>{
      {"category", MemoryGroup::kCategory},
      {"stage", MemoryGroup::kStage},
      {"microbatch", MemoryGroup::kMicrobatch},
      {"op", MemoryGroup::kOp}};
  return *groups;
}

void Print(const StatsArguments& arguments,
           const v1::GetMemoryStatsResponse& response, Context* context) {
  if (!context->json()) {
    *context->out << (arguments.by.empty()
                          ? MemoryStatsText(response)
                          : MemoryGroupsText(response,
                                             Groups().at(arguments.by)))
                  << std::flush;
    return;
  }
  Json document = MemoryStatsJson(response);
  if (!arguments.by.empty()) {
    document["by"] = MemoryGroupsJson(response, Groups().at(arguments.by));
  }
  // A stream is one document a line.
  *context->out << (arguments.watch ? document.dump() + "\n" : Dump(document))
                << std::flush;
}

absl::StatusOr<int> WatchStats(const StatsArguments& arguments,
                               Context* context) {
  Interrupt* const interrupt = InterruptOnSignals(kExitInterrupted);
  const absl::Status status =
      JobClient(context->endpoint)
          .WatchMemory(arguments.job_id,
                       absl::Milliseconds(arguments.interval_milliseconds),
                       interrupt, [&](const v1::GetMemoryStatsResponse& r) {
                         Print(arguments, r, context);
                       });
  SC_RETURN_IF_ERROR(status);
  return kExitDone;
}

absl::StatusOr<int> Stats(const StatsArguments& arguments, Context* context) {
  const bool held =
      !arguments.by.empty() && NeedsHeld(Groups().at(arguments.by));
  if (arguments.watch && held) {
    return absl::InvalidArgumentError(
        absl::StrCat("--watch goes with --by category and stage; --by ",
                     arguments.by, " asks the engine, so ask once"));
  }
  if (arguments.watch) return WatchStats(arguments, context);
  JobClient client(context->endpoint);
  SC_ASSIGN_OR_RETURN(const v1::GetMemoryStatsResponse response,
                      held ? client.HeldMemory(arguments.job_id)
                           : client.MemoryStats(arguments.job_id));
  Print(arguments, response, context);
  return kExitDone;
}

absl::StatusOr<int> Held(const std::string& job_id, Context* context) {
  SC_ASSIGN_OR_RETURN(const v1::GetMemoryStatsResponse response,
                      JobClient(context->endpoint).HeldMemory(job_id));
  *context->out << (context->json() ? Dump(HeldJson(response))
                                    : HeldText(response))
                << std::flush;
  return kExitDone;
}

absl::StatusOr<int> Snapshot(const std::string& job_id, const std::string& file,
                             Context* context) {
  SC_ASSIGN_OR_RETURN(const v1::GetMemoryStatsResponse response,
                      JobClient(context->endpoint).SnapshotMemory(job_id));
  SC_RETURN_IF_ERROR(WriteFile(file, SnapshotJson(response).dump()));
  int64_t points = 0;
  for (const v1::WorkerMemory& worker : response.workers()) {
    points += worker.points_size();
  }
  if (context->json()) {
    Json document;
    document["job_id"] = response.job_id();
    document["file"] = file;
    document["points"] = points;
    *context->out << Dump(document) << std::flush;
  } else {
    *context->out << file << ": the bytes after " << points
                  << " actions, and what is held; open it in "
                     "ui.perfetto.dev\n"
                  << std::flush;
  }
  return kExitDone;
}

absl::StatusOr<int> ResetPeak(const std::string& job_id, Context* context) {
  SC_ASSIGN_OR_RETURN(const v1::GetMemoryStatsResponse response,
                      JobClient(context->endpoint).ResetMemoryPeaks(job_id));
  if (context->json()) {
    *context->out << Dump(MemoryStatsJson(response)) << std::flush;
  } else {
    *context->out << "peaks begin anew; until now:\n"
                  << MemoryStatsText(response) << std::flush;
  }
  return kExitDone;
}

absl::StatusOr<int> Trim(const std::string& job_id, Context* context) {
  SC_ASSIGN_OR_RETURN(const v1::GetMemoryStatsResponse response,
                      JobClient(context->endpoint).TrimMemory(job_id));
  int64_t bytes = 0;
  for (const v1::WorkerMemory& worker : response.workers()) {
    bytes += worker.trimmed_bytes();
  }
  if (context->json()) {
    Json document = MemoryStatsJson(response);
    document["trimmed_bytes"] = bytes;
    *context->out << Dump(document) << std::flush;
  } else {
    *context->out << FormatByteSize(bytes)
                  << " given back to the system; now:\n"
                  << MemoryStatsText(response) << std::flush;
  }
  return kExitDone;
}

absl::StatusOr<int> Explain(const std::string& job_id, Context* context) {
  JobClient client(context->endpoint);
  SC_ASSIGN_OR_RETURN(const v1::GetMemoryStatsResponse response,
                      client.MemoryStats(job_id));
  SC_ASSIGN_OR_RETURN(const v1::Job job, client.Get(response.job_id()));
  if (context->json()) {
    Json document = MemoryStatsJson(response);
    document["explanation"] = ExplainText(response, job);
    *context->out << Dump(document) << std::flush;
  } else {
    *context->out << ExplainText(response, job) << std::flush;
  }
  return kExitDone;
}

void AddStats(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "stats",
      "Bytes by worker, category and stage; what was released and retained",
      {"stagecoach memory stats", "stagecoach memory stats JOB -o json",
       "stagecoach memory stats --by op", "stagecoach memory stats --watch"});
  auto arguments = std::make_shared<StatsArguments>();
  verb->add_option("JOB", arguments->job_id, kJobHelp);
  verb->add_option("--by", arguments->by,
                   "One table of present bytes by category, stage, microbatch "
                   "or op, the largest first")
      ->check(CLI::IsMember({"category", "stage", "microbatch", "op"}));
  verb->add_flag("--watch", arguments->watch,
                 "Again and again until the job is over");
  verb->add_option("--interval", arguments->interval_milliseconds,
                   "Milliseconds between two of --watch")
      ->check(CLI::Range(100, 3600000));
  SetAction(verb, context,
            [arguments, context] { return Stats(*arguments, context); });
}

// A verb that takes a job and nothing else.
void AddJobVerb(CLI::App* group, Context* context, const char* name,
                const char* description,
                absl::StatusOr<int> (*run)(const std::string&, Context*)) {
  const std::string command = absl::StrCat("stagecoach memory ", name);
  CLI::App* verb = AddVerb(group, name, description,
                           {command, absl::StrCat(command, " JOB -o json")});
  auto job_id = std::make_shared<std::string>();
  verb->add_option("JOB", *job_id, kJobHelp);
  SetAction(verb, context,
            [job_id, context, run] { return run(*job_id, context); });
}

void AddSnapshot(CLI::App* group, Context* context) {
  CLI::App* verb =
      AddVerb(group, "snapshot",
              "Write a file with each worker's bytes after the last actions "
              "(a counter track for ui.perfetto.dev) and what is held",
              {"stagecoach memory snapshot --out memory.json"});
  auto job_id = std::make_shared<std::string>();
  auto file = std::make_shared<std::string>();
  verb->add_option("JOB", *job_id, kJobHelp);
  verb->add_option("--out", *file, "The file to write")->required();
  SetAction(verb, context, [job_id, file, context] {
    return Snapshot(*job_id, *file, context);
  });
}

}  // namespace

void AddMemoryCommands(CLI::App* app, Context* context) {
  CLI::App* group = AddGroup(app, "memory", "Where a job's bytes are");
  AddStats(group, context);
  AddJobVerb(group, context, "held",
             "What is held for backwards to come: which op of which "
             "microbatch keeps how many bytes",
             &Held);
  AddSnapshot(group, context);
  AddJobVerb(group, context, "reset-peak",
             "Let every peak begin anew, and show what they were", &ResetPeak);
  AddJobVerb(group, context, "trim",
             "Let workers give back freed memory that they keep for later",
             &Trim);
  AddJobVerb(group, context, "explain",
             "What the figures mean, with this job's numbers", &Explain);
}

}  // namespace stagecoach::client
