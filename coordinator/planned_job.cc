#include "coordinator/planned_job.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/sha256.h"
#include "base/status.h"
#include "job/parse.h"
#include "schedule/formats/formats.h"

namespace stagecoach::coordinator {
namespace {

// Leaves room in a message of 4 MiB for the spec and the peers.
constexpr size_t kMaxScheduleBytes = 3 * 1024 * 1024;
constexpr size_t kIdDigits = 16;

}  // namespace

absl::StatusOr<PlannedJob> PlanForWorkers(const job::JobSpec& spec,
                                          const job::ModelProfile* profile,
                                          const Planner& planner) {
  // A client may be of another build, or none of ours.
  SC_RETURN_IF_ERROR(job::Validate(spec));
  PlannedJob planned;
  planned.spec = spec;
  SC_ASSIGN_OR_RETURN(planned.plan, planner(spec, profile));
  schedule::ToProto(planned.plan.schedule, &planned.schedule);
  if (planned.plan.evaluation.workers > 0) {
    schedule::ToProto(planned.plan.evaluation, &planned.evaluation);
  }
  const std::string bytes = planned.schedule.SerializeAsString();
  const size_t total = bytes.size() + planned.evaluation.ByteSizeLong();
  if (total > kMaxScheduleBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the schedule takes ", FormatByteSize(static_cast<int64_t>(total)),
        ", more than the ", FormatByteSize(kMaxScheduleBytes),
        " that a message to a worker has room for; use fewer "
        "training.microbatches"));
  }
  Sha256 hash;
  hash.Update(bytes);
  planned.schedule_id = hash.FinishHex().substr(0, kIdDigits);
  return planned;
}

std::string ScheduleNameOf(const PlannedJob& planned) {
  return planned.plan.provisional ? planned.spec.pipeline.schedule
                                  : planned.plan.schedule.kind;
}

std::vector<StagePlan> StagePlansOf(const job::JobPlan& plan) {
  std::vector<StagePlan> stages;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StageIndex stage(static_cast<int32_t>(i));
    StagePlan entry;
    entry.layer_begin = plan.stages[i].begin;
    entry.layer_end = plan.stages[i].end;
    entry.worker = plan.schedule.WorkerOf(stage).value();
    entry.output_bytes = plan.schedule.SendsActivation(stage)
                             ? static_cast<int64_t>(plan.boundary.bytes())
                             : 0;
    stages.push_back(entry);
  }
  return stages;
}

}  // namespace stagecoach::coordinator
