#include "client/plan_command.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/process.h"
#include "base/status.h"
#include "client/command_line.h"
#include "client/daemon_binary.h"
#include "client/exit_codes.h"
#include "client/output/alternatives.h"
#include "client/output/json.h"
#include "client/output/plan_output.h"
#include "client/profile_model.h"
#include "client/signals.h"
#include "client/spec_arguments.h"
#include "job/memory_fit.h"

namespace stagecoach::client {
namespace {

struct PlanArguments {
  SpecArguments spec;
  bool compare = false;
  bool equal_costs = false;
};

// Null where nothing is to be measured, or nobody is there to do it.
absl::StatusOr<std::optional<job::ModelProfile>> Measure(
    const PlanArguments& arguments, const job::JobSpec& spec,
    Context* context) {
  if (arguments.equal_costs) return std::nullopt;
  const absl::StatusOr<std::string> worker =
      FindDaemon(WorkerBinary(), ExecutableFolder());
  if (!worker.ok()) {
    *context->error << "at equal costs, for there is no worker to measure the "
                       "model: "
                    << worker.status().message() << std::endl;
    return std::nullopt;
  }
  *context->error << "measuring one microbatch of the model" << std::endl;
  Interrupt* const interrupt = InterruptOnSignals(kExitInterrupted);
  SC_ASSIGN_OR_RETURN(job::ModelProfile profile,
                      ProfileModel(spec, *worker, *interrupt));
  return profile;
}

// Says so, with a change that fits, if the plan cannot keep the spec's
// memory.limit.
int CheckLimit(const job::JobSpec& spec, const job::JobPlan& plan,
               const job::ModelProfile* profile, Context* context) {
  const int64_t limit = spec.memory.limit_bytes;
  for (size_t i = 0; limit > 0 && i < plan.memory.size(); ++i) {
    if (plan.memory[i].low.total <= limit) continue;
    job::OverLimit over;
    over.worker = static_cast<int>(i);
    over.interval = plan.memory[i];
    over.question = job::MemoryQuestionOf(spec, plan, profile->workers);
    *context->error << "stagecoach: "
                    << job::DescribeOverLimit(spec, plan, absl::StrCat("w", i),
                                              over)
                    << std::endl;
    return kExitOutOfMemory;
  }
  return kExitDone;
}

absl::StatusOr<int> Plan(const PlanArguments& arguments, Context* context) {
  SC_ASSIGN_OR_RETURN(CheckedSpec spec, LoadSpec(arguments.spec));
  SC_ASSIGN_OR_RETURN(const std::optional<job::ModelProfile> measured,
                      Measure(arguments, spec.spec(), context));
  const job::ModelProfile* const profile = measured ? &*measured : nullptr;
  if (profile != nullptr) {
    SC_ASSIGN_OR_RETURN(spec.plan, job::PlanJob(spec.spec(), profile));
  }
  std::vector<Alternative> alternatives;
  if (arguments.compare) {
    alternatives = FindAlternatives(spec.spec(), spec.plan, profile);
  }
  if (context->json()) {
    Json document = PlanJson(spec.spec(), spec.plan);
    if (arguments.compare) {
      document["alternatives"] =
          AlternativesJson(alternatives, spec.plan.measured);
    }
    *context->out << Dump(document) << std::flush;
    return CheckLimit(spec.spec(), spec.plan, profile, context);
  }
  *context->out << PlanText(spec.spec(), spec.plan);
  if (arguments.compare) {
    *context->out << "\n" << AlternativesText(alternatives, spec.plan.measured);
  }
  *context->out << std::flush;
  return CheckLimit(spec.spec(), spec.plan, profile, context);
}

}  // namespace

void AddPlanCommand(CLI::App* app, Context* context) {
  CLI::App* verb =
      AddVerb(app, "plan",
              "Stages, layers, schedule, step time, bubble and memory of a "
              "job, without running it: one worker process measures a "
              "microbatch",
              {"stagecoach plan examples/tiny.toml",
               "stagecoach plan job.toml --set pipeline.schedule=gpipe -o json",
               "stagecoach plan job.toml --compare",
               "stagecoach plan job.toml --equal-costs"});
  auto arguments = std::make_shared<PlanArguments>();
  AddSpecArguments(verb, &arguments->spec);
  verb->add_flag("--compare", arguments->compare,
                 "Also list what every other schedule would do for this job, "
                 "and which one is the shortest");
  verb->add_flag("--equal-costs", arguments->equal_costs,
                 "Measure nothing: plan as if every layer took as long, and "
                 "its forward as long as each half of its backward");
  SetAction(verb, context,
            [arguments, context] { return Plan(*arguments, context); });
}

}  // namespace stagecoach::client
