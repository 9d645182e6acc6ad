#include "coordinator/planned_job.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/sha256.h"
#include "base/status.h"
#include "job/parse.h"
#include "job/schedule_source.h"
#include "job/spec_proto.h"
#include "schedule/formats/formats.h"

namespace stagecoach::coordinator {
namespace {

// Leaves room in a message of 4 MiB for the spec and the peers.
constexpr size_t kMaxScheduleBytes = size_t{3} << 20;
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

absl::StatusOr<PlannedJob> PlanSpec(const v1::JobSpec& spec,
                                    const job::ModelProfile* profile,
                                    const Planner& planner) {
  SC_ASSIGN_OR_RETURN(const job::JobSpec parsed, job::FromProto(spec));
  return PlanForWorkers(parsed, profile, planner);
}

absl::StatusOr<job::JobSpec> SpecUnder(const PlannedJob& planned,
                                       const std::string& schedule,
                                       int64_t send_budget) {
  job::JobSpec spec = planned.spec;
  job::PipelineSpec& pipeline = spec.pipeline;
  pipeline.schedule = schedule;
  pipeline.stages_per_worker = planned.plan.schedule.stages_per_worker;
  if (send_budget < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("send budget ", send_budget, ": must be at least 1"));
  }
  pipeline.send_budget =
      send_budget > 0 ? send_budget : planned.plan.schedule.send_budget;
  pipeline.split.clear();
  for (const job::StageLayers& stage : planned.plan.stages) {
    pipeline.split.push_back(stage.end - stage.begin);
  }
  if (job::IsAutoSchedule(pipeline.schedule)) {
    return absl::InvalidArgumentError(
        "\"auto\" is for jobs that start; name a schedule");
  }
  if (job::IsScheduleFile(pipeline.schedule)) return spec;
  SC_RETURN_IF_ERROR(job::CheckScheduleKind(pipeline.schedule));
  SC_RETURN_IF_ERROR(
      job::CheckStagesPerWorker(pipeline.schedule, pipeline.stages_per_worker));
  return spec;
}

std::vector<StagePlan> StagePlansOf(const job::JobPlan& plan) {
  std::vector<StagePlan> stages;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StageIndex stage(static_cast<int32_t>(i));
    StagePlan entry;
    entry.layer_begin = plan.stages[i].begin;
    entry.layer_end = plan.stages[i].end;
    entry.worker = plan.schedule.WorkerOf(stage).value();
    entry.output_bytes =
        plan.schedule.SendsActivation(stage) ? plan.boundary.bytes() : 0;
    stages.push_back(entry);
  }
  return stages;
}

}  // namespace stagecoach::coordinator
