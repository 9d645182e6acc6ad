#include "client/cluster_commands.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/version.h"
#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/job_client.h"
#include "client/output/cluster_output.h"
#include "client/output/json.h"

namespace stagecoach::client {
namespace {

absl::StatusOr<int> ListWorkers(Context* context) {
  SC_ASSIGN_OR_RETURN(const v1::ListWorkersResponse response,
                      JobClient(context->endpoint).Workers());
  *context->out << (context->json() ? Dump(WorkerListJson(response))
                                    : WorkerListText(response))
                << std::flush;
  return kExitDone;
}

absl::StatusOr<int> ShowWorker(Context* context, const std::string& name) {
  JobClient client(context->endpoint);
  SC_ASSIGN_OR_RETURN(const v1::ListWorkersResponse response, client.Workers());
  const auto worker = std::find_if(
      response.workers().begin(), response.workers().end(),
      [&](const v1::WorkerInfo& each) { return each.id() == name; });
  if (worker == response.workers().end()) {
    return absl::NotFoundError(absl::StrCat(
        "no worker ", name, "; `stagecoach worker list` names all"));
  }
  // Its job may have ended and been forgotten meanwhile.
  absl::StatusOr<v1::Job> job = absl::NotFoundError("none");
  if (!worker->job_id().empty()) job = client.Get(worker->job_id());
  if (!job.ok() && !absl::IsNotFound(job.status())) return job.status();
  const v1::Job* const its_job = job.ok() ? &*job : nullptr;
  *context->out << (context->json() ? Dump(WorkerJson(*worker, its_job))
                                    : WorkerText(*worker, its_job))
                << std::flush;
  return kExitDone;
}

void PrintVersion(const v1::GetCoordinatorResponse* coordinator,
                  const absl::Status& skew, Context* context) {
  if (context->json()) {
    Json document = VersionJson(coordinator);
    if (!skew.ok()) AddError(ExitCodeOf(skew), skew.message(), &document);
    *context->out << Dump(document) << std::flush;
  } else {
    *context->out << VersionText(coordinator) << std::flush;
  }
  if (!skew.ok()) *context->error << "stagecoach: " << skew.message() << "\n";
}

absl::StatusOr<int> Version(Context* context) {
  const absl::StatusOr<v1::GetCoordinatorResponse> answer =
      JobClient(context->endpoint).Coordinator();
  if (!answer.ok()) {
    // No coordinator is no mistake: the client's own version was asked for.
    const absl::Status skew = ExitCodeOf(answer.status()) == kExitVersionSkew
                                  ? answer.status()
                                  : absl::OkStatus();
    PrintVersion(nullptr, skew, context);
    return ExitCodeOf(skew);
  }
  absl::Status skew;
  if (answer->protocol() != kProtocolVersion) {
    skew = absl::FailedPreconditionError(
        absl::StrCat("version skew: the coordinator at ", context->endpoint,
                     " speaks protocol ", answer->protocol(), ", this client ",
                     kProtocolVersion, "; install the same version on both"));
  }
  PrintVersion(&*answer, skew, context);
  return ExitCodeOf(skew);
}

}  // namespace

void AddClusterCommands(CLI::App* app, Context* context) {
  CLI::App* group = AddGroup(app, "worker", "The workers of a cluster");
  CLI::App* list =
      AddVerb(group, "list", "Devices, states and versions of all workers",
              {"stagecoach worker list", "stagecoach worker list -o json"});
  SetAction(list, context, [context] { return ListWorkers(context); });
  CLI::App* show = AddVerb(
      group, "show",
      "A worker, the ways to its peers that it has, why it has not the "
      "others, and which way each edge of its job takes",
      {"stagecoach worker show w0", "stagecoach worker show w0 -o json"});
  auto name = std::make_shared<std::string>();
  show->add_option("WORKER", *name, "The worker's name")->required();
  SetAction(show, context,
            [context, name] { return ShowWorker(context, *name); });
  CLI::App* version =
      AddVerb(app, "version",
              "Versions of this command and of the coordinator, if one answers",
              {"stagecoach version", "stagecoach version -o json"});
  SetAction(version, context, [context] { return Version(context); });
}

}  // namespace stagecoach::client
