#include "schedule/generators/builder.h"

#include <algorithm>
#include <string>
#include <utility>

namespace stagecoach::schedule {
namespace {

size_t StageCount(const GenerateOptions& options) {
  return static_cast<size_t>(options.workers) *
         static_cast<size_t>(options.stages_per_worker);
}

}  // namespace

Action Forward(int stage, int microbatch) {
  return Action{ActionKind::kForward, StageIndex(stage),
                MicrobatchIndex(microbatch)};
}

Action Backward(int stage, int microbatch) {
  return Action{ActionKind::kBackward, StageIndex(stage),
                MicrobatchIndex(microbatch)};
}

Action BackwardInput(int stage, int microbatch) {
  return Action{ActionKind::kBackwardInput, StageIndex(stage),
                MicrobatchIndex(microbatch)};
}

Action BackwardWeight(int stage, int microbatch) {
  return Action{ActionKind::kBackwardWeight, StageIndex(stage),
                MicrobatchIndex(microbatch)};
}

std::vector<WorkerIndex> RoundRobinPlacement(const GenerateOptions& options) {
  std::vector<WorkerIndex> placement;
  placement.reserve(StageCount(options));
  for (int s = 0; s < options.workers * options.stages_per_worker; ++s) {
    placement.push_back(WorkerIndex(s % options.workers));
  }
  return placement;
}

std::vector<WorkerIndex> ContiguousPlacement(const GenerateOptions& options) {
  std::vector<WorkerIndex> placement;
  placement.reserve(StageCount(options));
  for (int s = 0; s < options.workers * options.stages_per_worker; ++s) {
    placement.push_back(WorkerIndex(s / options.stages_per_worker));
  }
  return placement;
}

std::vector<WorkerIndex> VShapedPlacement(const GenerateOptions& options) {
  std::vector<WorkerIndex> placement;
  placement.reserve(StageCount(options));
  for (int w = 0; w < options.workers; ++w) {
    placement.push_back(WorkerIndex(w));
  }
  for (int w = options.workers - 1; w >= 0; --w) {
    placement.push_back(WorkerIndex(w));
  }
  return placement;
}

std::vector<Action> OneForwardOneBackwardList(int stage, int microbatches,
                                              int warm_up) {
  const int first = std::clamp(warm_up, 1, microbatches);
  std::vector<Action> list;
  list.reserve(2 * static_cast<size_t>(microbatches));
  for (int m = 0; m < first; ++m) list.push_back(Forward(stage, m));
  for (int m = 0; m < microbatches; ++m) {
    list.push_back(Backward(stage, m));
    if (first + m < microbatches) list.push_back(Forward(stage, first + m));
  }
  return list;
}

std::vector<Action> SplitOneForwardOneBackwardList(int stage, int microbatches,
                                                   int warm_up, int delay) {
  const int first = std::clamp(warm_up, 1, microbatches);
  std::vector<Action> list;
  list.reserve(3 * static_cast<size_t>(microbatches));
  for (int m = 0; m < first; ++m) list.push_back(Forward(stage, m));
  for (int m = 0; m < microbatches; ++m) {
    list.push_back(BackwardInput(stage, m));
    if (m >= delay) list.push_back(BackwardWeight(stage, m - delay));
    if (first + m < microbatches) list.push_back(Forward(stage, first + m));
  }
  for (int m = std::max(0, microbatches - delay); m < microbatches; ++m) {
    list.push_back(BackwardWeight(stage, m));
  }
  return list;
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
