#include "coordinator/beginning.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "stage_worker/checkpoint/folders.h"
#include "stage_worker/checkpoint/manifest.h"

namespace stagecoach::coordinator {
namespace {

absl::Status Refused(absl::string_view message) {
  return absl::InvalidArgumentError(message);
}

// Two runs in one directory would take each other's checkpoints for their own.
absl::Status CheckUnused(const std::string& directory) {
  SC_ASSIGN_OR_RETURN(const std::vector<checkpoint::FoundCheckpoint> found,
                      checkpoint::ListCheckpoints(directory));
  if (found.empty()) return absl::OkStatus();
  return Refused(absl::StrCat(
      "checkpoint.directory: ", directory,
      " holds checkpoints already (newest: step ", found.front().step,
      "); go on from there with --resume, or name another directory"));
}

absl::Status CheckSteps(const checkpoint::ChosenCheckpoint& chosen,
                        const job::JobSpec& spec) {
  if (chosen.manifest.step <= spec.training.steps) return absl::OkStatus();
  return Refused(absl::StrCat("checkpoint ", chosen.path, ": it is of step ",
                              chosen.manifest.step, ", training.steps is ",
                              spec.training.steps));
}

}  // namespace

absl::Status ChooseBeginning(const std::string& job_id, bool resume,
                             PlannedJob* planned) {
  const std::string& directory = planned->spec.checkpoint.directory;
  if (directory.empty()) {
    return resume ? Refused(
                        "a job without checkpoint.directory cannot be "
                        "resumed")
                  : absl::OkStatus();
  }
  if (!resume) return CheckUnused(directory);
  LogFields fields;
  fields.job = job_id;
  auto choice = checkpoint::ChooseCheckpoint(directory);
  if (!choice.ok()) return Refused(choice.status().message());
  for (const std::string& warning : choice->warnings) {
    LogWarning(absl::StrCat(warning, "; taking the one before"), fields);
  }
  if (!choice->checkpoint.has_value()) {
    LogWarning(
        absl::StrCat("no checkpoint in ", directory, ": beginning with step 0"),
        fields);
    return absl::OkStatus();
  }
  const checkpoint::ChosenCheckpoint& chosen = *choice->checkpoint;
  const absl::Status continues =
      checkpoint::CheckContinues(chosen.manifest, planned->spec);
  if (!continues.ok()) {
    return Refused(
        absl::StrCat("checkpoint ", chosen.path, ": ", continues.message()));
  }
  SC_RETURN_IF_ERROR(CheckSteps(chosen, planned->spec));
  LogInfo(absl::StrCat("goes on from ", chosen.path), fields);
  planned->first_step = chosen.manifest.step;
  planned->checkpoint = chosen.path;
  return absl::OkStatus();
}

}  // namespace stagecoach::coordinator
