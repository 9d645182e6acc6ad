#include "stage_worker/check_assignment.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "job/parse.h"

namespace stagecoach::worker {
namespace {

absl::Status SameNumber(const char* what, int64_t schedule, int64_t spec) {
  if (schedule == spec) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the schedule is for ", what, " = ", schedule, ", not ", spec));
}

absl::Status CheckNumbers(const PlacementOptions& options,
                          const schedule::Schedule& schedule,
                          int64_t microbatches) {
  if (!schedule.lowered()) {
    return absl::InvalidArgumentError("the schedule has no communication");
  }
  SC_RETURN_IF_ERROR(
      SameNumber("workers", schedule.workers, options.spec.pipeline.workers));
  SC_RETURN_IF_ERROR(
      SameNumber("microbatches", schedule.microbatches, microbatches));
  SC_RETURN_IF_ERROR(
      SameNumber("peers", schedule.workers,
                 static_cast<int64_t>(options.worker_names.size())));
  if (options.worker.value() >= 0 &&
      options.worker.value() < schedule.workers) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "this is worker ", options.worker.value(), " of ", schedule.workers));
}

absl::Status CheckStages(const PlacementOptions& options,
                         const schedule::Schedule& schedule) {
  const std::vector<StageIndex> own = schedule.StagesOf(options.worker);
  if (own.size() != options.stages.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.stages.size(), " stages are assigned, the ",
                     "schedule places ", own.size(), " here"));
  }
  for (size_t i = 0; i < own.size(); ++i) {
    const StageIndex assigned = options.stages[i].stage;
    if (assigned == own[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "stage ", assigned.value(), " is assigned, the schedule places stage ",
        own[i].value(), " here"));
  }
  return absl::OkStatus();
}

absl::Status CheckOwnList(const PlacementOptions& options,
                          const schedule::Schedule& schedule) {
  for (const schedule::Action& action :
       schedule.actions[options.worker.index()]) {
    if (schedule.WorkerOf(action.stage) == options.worker) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(schedule::ToString(action), " is in the list of worker ",
                     options.worker.value(), ", whose stage it is not"));
  }
  for (const schedule::EdgePlan& plan : schedule.edges) {
    if (plan.edge.from != plan.edge.to) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the schedule has an edge from worker ",
                     plan.edge.from.value(), " to itself"));
  }
  return absl::OkStatus();
}

absl::Status CheckSchedule(const PlacementOptions& options,
                           const schedule::Schedule& schedule,
                           int64_t microbatches) {
  SC_RETURN_IF_ERROR(CheckNumbers(options, schedule, microbatches));
  SC_RETURN_IF_ERROR(CheckStages(options, schedule));
  return CheckOwnList(options, schedule);
}

absl::Status CheckLayers(const PlacementOptions& options) {
  for (const StageAssignment& stage : options.stages) {
    if (0 <= stage.layers.begin && stage.layers.begin < stage.layers.end &&
        stage.layers.end <= options.spec.model.layers) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "stage ", stage.stage.value(), " is given layers ", stage.layers.begin,
        " to ", stage.layers.end, " of ", options.spec.model.layers));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAssignment(const PlacementOptions& options) {
  SC_RETURN_IF_ERROR(job::Validate(options.spec));
  SC_RETURN_IF_ERROR(CheckSchedule(options, options.schedule,
                                   options.spec.training.microbatches));
  SC_RETURN_IF_ERROR(CheckLayers(options));
  if (options.evaluation.workers == 0) return absl::OkStatus();
  return Annotate(CheckSchedule(options, options.evaluation,
                                options.spec.evaluation.microbatches),
                  "evaluation");
}

}  // namespace stagecoach::worker
