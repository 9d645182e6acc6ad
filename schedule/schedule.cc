#include "schedule/schedule.h"

#include "absl/strings/str_cat.h"

namespace stagecoach::schedule {

std::string ToString(const EdgeId& edge) {
  return absl::StrCat(edge.from.value(), "->", edge.to.value(), " ",
                      DirectionName(edge.direction));
}

EdgeId Schedule::EdgeOf(const Action& action) const {
  const Direction direction = DirectionOf(action.kind);
  const bool to_next =
      (direction == Direction::kActivation) != IsReceive(action.kind);
  const WorkerIndex here = WorkerOf(action.stage);
  const WorkerIndex peer =
      WorkerOf(to_next ? action.stage.Next() : action.stage.Previous());
  return IsReceive(action.kind) ? EdgeId{peer, here, direction}
                                : EdgeId{here, peer, direction};
}

std::vector<StageIndex> Schedule::StagesOf(WorkerIndex worker) const {
  std::vector<StageIndex> result;
  for (StageIndex stage(0); stage.value() < stages(); ++stage) {
    if (WorkerOf(stage) == worker) result.push_back(stage);
  }
  return result;
}

}  // namespace stagecoach::schedule
