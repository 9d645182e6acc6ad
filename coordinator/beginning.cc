#include "coordinator/beginning.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "job/loss_scale_proto.h"
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

LogFields FieldsOf(const std::string& job_id) {
  LogFields fields;
  fields.job = job_id;
  return fields;
}

void Warn(const std::string& job_id, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    LogWarning(absl::StrCat(warning, "; taking the one before"),
               FieldsOf(job_id));
  }
}

absl::Status BeginWith(const std::string& job_id,
                       const checkpoint::ChosenCheckpoint& chosen,
                       PlannedJob* planned) {
  const absl::Status continues =
      checkpoint::CheckContinues(chosen.manifest, planned->spec);
  if (!continues.ok()) {
    return Refused(
        absl::StrCat("checkpoint ", chosen.path, ": ", continues.message()));
  }
  SC_RETURN_IF_ERROR(CheckSteps(chosen, planned->spec));
  LogInfo(absl::StrCat("goes on from ", chosen.path), FieldsOf(job_id));
  planned->first_step = chosen.manifest.step;
  planned->checkpoint = chosen.path;
  planned->loss_scale.reset();
  if (chosen.manifest.loss_scale.has_value()) {
    planned->loss_scale = job::ToProto(*chosen.manifest.loss_scale);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ChooseRecovery(const std::string& job_id, int64_t first_step,
                            int64_t steps_committed, PlannedJob* planned) {
  planned->first_step = 0;
  planned->checkpoint.clear();
  const std::string& directory = planned->spec.checkpoint.directory;
  std::string why = "the job has no checkpoint.directory";
  if (!directory.empty()) {
    const auto choice =
        checkpoint::ChooseCheckpoint(directory, steps_committed);
    if (choice.ok()) {
      Warn(job_id, choice->warnings);
      const auto& chosen = choice->checkpoint;
      if (chosen.has_value() && chosen->manifest.step >= first_step) {
        return BeginWith(job_id, *chosen, planned);
      }
      why = absl::StrCat(directory, " has none from step ", first_step, " on");
    } else {
      why = std::string(choice.status().message());
    }
  }
  if (first_step == 0) {
    LogWarning(absl::StrCat("begins with step 0 again: ", why),
               FieldsOf(job_id));
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no checkpoint to go on from: ", why));
}

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
  auto choice = checkpoint::ChooseCheckpoint(directory);
  if (!choice.ok()) return Refused(choice.status().message());
  Warn(job_id, choice->warnings);
  if (!choice->checkpoint.has_value()) {
    LogWarning(
        absl::StrCat("no checkpoint in ", directory, ": beginning with step 0"),
        FieldsOf(job_id));
    return absl::OkStatus();
  }
  return BeginWith(job_id, *choice->checkpoint, planned);
}

}  // namespace stagecoach::coordinator
