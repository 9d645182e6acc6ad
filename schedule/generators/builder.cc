#include "schedule/generators/builder.h"

#include <string>
#include <utility>

namespace stagecoach::schedule {

Action Forward(int stage, int microbatch) {
  return Action{ActionKind::kForward, StageIndex(stage),
                MicrobatchIndex(microbatch)};
}

Action Backward(int stage, int microbatch) {
  return Action{ActionKind::kBackward, StageIndex(stage),
                MicrobatchIndex(microbatch)};
}

std::vector<WorkerIndex> RoundRobinPlacement(const GenerateOptions& options) {
  std::vector<WorkerIndex> placement;
  for (int s = 0; s < options.workers * options.stages_per_worker; ++s) {
    placement.push_back(WorkerIndex(s % options.workers));
  }
  return placement;
}

std::vector<WorkerIndex> ContiguousPlacement(const GenerateOptions& options) {
  std::vector<WorkerIndex> placement;
  for (int s = 0; s < options.workers * options.stages_per_worker; ++s) {
    placement.push_back(WorkerIndex(s / options.stages_per_worker));
  }
  return placement;
}

Schedule EmptySchedule(absl::string_view kind, const GenerateOptions& options,
                       std::vector<WorkerIndex> placement) {
  Schedule schedule;
  schedule.kind = std::string(kind);
  schedule.workers = options.workers;
  schedule.stages_per_worker = options.stages_per_worker;
  schedule.microbatches = options.microbatches;
  schedule.placement = std::move(placement);
  schedule.actions.resize(static_cast<size_t>(options.workers));
  return schedule;
}

}  // namespace stagecoach::schedule
