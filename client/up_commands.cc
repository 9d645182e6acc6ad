#include "client/up_commands.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/process.h"
#include "base/status.h"
#include "client/cluster_record.h"
#include "client/command_line.h"
#include "client/daemon_binary.h"
#include "client/exit_codes.h"
#include "client/kept_cluster.h"
#include "client/output/json.h"
#include "client/signals.h"
#include "client/time_argument.h"

namespace stagecoach::client {
namespace {

constexpr char kDirectoryHelp[] =
    "Folder for the cluster's record and logs (default: STAGECOACH_DIRECTORY, "
    "else ~/.local/state/stagecoach)";

// ---- up ---------------------------------------------------------------------

Json UpJson(const ClusterRecord& record, const std::string& folder) {
  Json json;
  json["endpoint"] = record.endpoint;
  json["directory"] = folder;
  json["processes"] = Json::array();
  for (const RecordedProcess& process : record.processes) {
    Json entry;
    entry["name"] = process.name;
    entry["process_id"] = process.identity.pid;
    entry["log"] =
        absl::StrCat(ClusterLogFolder(folder), "/", process.name, ".log");
    json["processes"].push_back(std::move(entry));
  }
  return json;
}

absl::StatusOr<int> Up(UpOptions options, Context* context) {
  if (options.workers < 1 || options.workers > 1024) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--workers ", options.workers, " is not between 1 and 1024"));
  }
  options.folder = ClusterFolder(options.folder);
  SC_ASSIGN_OR_RETURN(options.coordinator_binary,
                      FindDaemon(CoordinatorBinary(), ExecutableFolder()));
  SC_ASSIGN_OR_RETURN(options.worker_binary,
                      FindDaemon(WorkerBinary(), ExecutableFolder()));
  Interrupt* const interrupt = InterruptOnSignals(kExitInterrupted);
  SC_ASSIGN_OR_RETURN(const ClusterRecord record, BringUp(options, interrupt));
  if (context->json()) {
    *context->out << Dump(UpJson(record, options.folder)) << std::flush;
    return kExitDone;
  }
  *context->out << record.endpoint << std::endl;
  *context->error << options.workers
                  << (options.workers == 1 ? " worker is" : " workers are")
                  << " ready; logs in " << ClusterLogFolder(options.folder)
                  << "; `stagecoach down` ends them" << std::endl;
  return kExitDone;
}

void AddUp(CLI::App* app, Context* context) {
  CLI::App* verb = AddVerb(
      app, "up",
      "Start a coordinator and workers on this machine that stay, and print "
      "their endpoint; other verbs find them",
      {"stagecoach up --workers 4", "stagecoach up -o json",
       "STAGECOACH_DIRECTORY=/tmp/second stagecoach up"});
  auto options = std::make_shared<UpOptions>();
  verb->add_option("--workers", options->workers, "How many workers")
      ->capture_default_str();
  verb->add_option("--directory", options->folder, kDirectoryHelp);
  SetAction(verb, context,
            [options, context] { return Up(*options, context); });
}

// ---- down -------------------------------------------------------------------

void PrintDown(const DownResult& result, Context* context) {
  if (context->json()) {
    Json json;
    json["ended"] = result.ended;
    json["killed"] = result.killed;
    json["gone"] = result.gone;
    *context->out << Dump(json) << std::flush;
    return;
  }
  *context->out << (result.ended.empty() && result.gone.empty()
                        ? "no local cluster is up"
                        : absl::StrCat(result.ended.size(), " processes ended"))
                << std::endl;
  if (!result.killed.empty()) {
    *context->error << absl::StrJoin(result.killed, ", ")
                    << " did not end alone and had to be killed" << std::endl;
  }
  if (!result.gone.empty()) {
    *context->error << absl::StrJoin(result.gone, ", ") << " had ended before"
                    << std::endl;
  }
}

absl::StatusOr<int> Down(DownOptions options, const std::string& grace,
                         Context* context) {
  SC_ASSIGN_OR_RETURN(options.grace, ParseTimeArgument("--grace", grace));
  options.folder = ClusterFolder(options.folder);
  absl::StatusOr<DownResult> result = TakeDown(options);
  // What was asked for is so.
  if (absl::IsNotFound(result.status())) result = DownResult();
  SC_RETURN_IF_ERROR(result.status());
  PrintDown(*result, context);
  return kExitDone;
}

void AddDown(CLI::App* app, Context* context) {
  CLI::App* verb = AddVerb(
      app, "down", "End the processes that `up` started, and only those",
      {"stagecoach down", "stagecoach down --keep-logs"});
  auto options = std::make_shared<DownOptions>();
  verb->add_flag("--keep-logs", options->keep_logs,
                 "Leave the processes' logs where they are");
  auto grace = std::make_shared<std::string>("12s");
  verb->add_option("--grace", *grace,
                   "How long they may take to end by themselves")
      ->capture_default_str();
  verb->add_option("--directory", options->folder, kDirectoryHelp);
  SetAction(verb, context, [options, grace, context] {
    return Down(*options, *grace, context);
  });
}

}  // namespace

void AddUpCommands(CLI::App* app, Context* context) {
  AddUp(app, context);
  AddDown(app, context);
}

}  // namespace stagecoach::client
