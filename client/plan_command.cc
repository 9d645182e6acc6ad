#include "client/plan_command.h"

#include <memory>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/output/json.h"
#include "client/output/plan_output.h"
#include "client/spec_arguments.h"

namespace stagecoach::client {
namespace {

absl::StatusOr<int> Plan(const SpecArguments& arguments, Context* context) {
  SC_ASSIGN_OR_RETURN(const CheckedSpec spec, LoadSpec(arguments));
  *context->out << (context->json() ? Dump(PlanJson(spec.spec(), spec.plan))
                                    : PlanText(spec.spec(), spec.plan))
                << std::flush;
  return kExitDone;
}

}  // namespace

void AddPlanCommand(CLI::App* app, Context* context) {
  CLI::App* verb = AddVerb(
      app, "plan",
      "Stages, layers, schedule and bubble of a job, without running it",
      {"stagecoach plan examples/gpt.toml",
       "stagecoach plan job.toml --set pipeline.schedule=gpipe -o json"});
  auto arguments = std::make_shared<SpecArguments>();
  AddSpecArguments(verb, arguments.get());
  SetAction(verb, context,
            [arguments, context] { return Plan(*arguments, context); });
}

}  // namespace stagecoach::client
