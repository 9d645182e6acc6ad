#include "client/spec_arguments.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "job/words.h"

namespace stagecoach::client {

void AddSpecArguments(CLI::App* verb, SpecArguments* arguments) {
  verb->add_option("SPEC", arguments->file, "Job spec (TOML)")->required();
  verb->add_option("--set", arguments->overrides,
                   "Set a key of the spec, for example "
                   "pipeline.send_budget=1; may be repeated")
      // One value each, so that SPEC may follow.
      ->allow_extra_args(false);
  verb->add_option("--transport", arguments->transport,
                   "Short for --set pipeline.transport=T")
      ->type_name(absl::StrCat(
          "{", absl::StrJoin(job::WordTexts<job::TransportKind>(true), ","),
          "}"));
}

void AddResumeFlag(CLI::App* verb, bool* resume) {
  verb->add_flag("--resume", *resume,
                 "Go on from the newest sound checkpoint of the spec's "
                 "checkpoint.directory, or begin if there is none");
}

absl::StatusOr<CheckedSpec> LoadSpec(const SpecArguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.transport.empty()) {
    overrides.push_back(
        absl::StrCat("pipeline.transport=", arguments.transport));
  }
  absl::StatusOr<job::ParsedSpec> parsed =
      job::LoadJobSpec(arguments.file, overrides);
  if (absl::IsNotFound(parsed.status())) {
    return absl::InvalidArgumentError(parsed.status().message());
  }
  SC_RETURN_IF_ERROR(parsed.status());
  SC_RETURN_IF_ERROR(job::ResolveModel(&*parsed));
  SC_RETURN_IF_ERROR(job::Validate(*parsed));
  absl::StatusOr<job::JobPlan> plan = job::PlanJob(parsed->spec, nullptr);
  if (!plan.ok()) {
    return parsed->ErrorAt("pipeline.schedule", plan.status().message());
  }
  CheckedSpec checked;
  checked.parsed = *std::move(parsed);
  checked.plan = *std::move(plan);
  return checked;
}

}  // namespace stagecoach::client
