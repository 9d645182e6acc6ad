#include "client/cluster_commands.h"

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
  CLI::App* version =
      AddVerb(app, "version",
              "Versions of this command and of the coordinator, if one answers",
              {"stagecoach version", "stagecoach version -o json"});
  SetAction(version, context, [context] { return Version(context); });
}

}  // namespace stagecoach::client
