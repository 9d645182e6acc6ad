#include "client/plan_command.h"

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/output/alternatives.h"
#include "client/output/json.h"
#include "client/output/plan_output.h"
#include "client/spec_arguments.h"

namespace stagecoach::client {
namespace {

struct PlanArguments {
  SpecArguments spec;
  bool compare = false;
};

absl::StatusOr<int> Plan(const PlanArguments& arguments, Context* context) {
  SC_ASSIGN_OR_RETURN(const CheckedSpec spec, LoadSpec(arguments.spec));
  std::vector<Alternative> alternatives;
  if (arguments.compare) {
    alternatives = FindAlternatives(spec.spec(), spec.plan);
  }
  if (context->json()) {
    Json document = PlanJson(spec.spec(), spec.plan);
    if (arguments.compare) {
      document["alternatives"] = AlternativesJson(alternatives);
    }
    *context->out << Dump(document) << std::flush;
    return kExitDone;
  }
  *context->out << PlanText(spec.spec(), spec.plan);
  if (arguments.compare) {
    *context->out << "\n" << AlternativesText(alternatives);
  }
  *context->out << std::flush;
  return kExitDone;
}

}  // namespace

void AddPlanCommand(CLI::App* app, Context* context) {
  CLI::App* verb = AddVerb(
      app, "plan",
      "Stages, layers, schedule and bubble of a job, without running it",
      {"stagecoach plan examples/tiny.toml",
       "stagecoach plan job.toml --set pipeline.schedule=gpipe -o json",
       "stagecoach plan job.toml --compare"});
  auto arguments = std::make_shared<PlanArguments>();
  AddSpecArguments(verb, &arguments->spec);
  verb->add_flag("--compare", arguments->compare,
                 "Also list what every other schedule would do for this job, "
                 "and which one is the shortest");
  SetAction(verb, context,
            [arguments, context] { return Plan(*arguments, context); });
}

}  // namespace stagecoach::client
