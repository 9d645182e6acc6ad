#include "schedule/edge_table.h"

#include <algorithm>

namespace stagecoach::schedule {

EdgeTable::EdgeTable(const Schedule& schedule)
    : activation_out_(schedule.placement.size(), -1),
      gradient_out_(schedule.placement.size(), -1) {
  const auto for_each_wire = [&schedule](auto visit) {
    for (StageIndex stage(0); stage.value() + 1 < schedule.stages(); ++stage) {
      const WorkerIndex here = schedule.WorkerOf(stage);
      const WorkerIndex next = schedule.WorkerOf(stage.Next());
      if (here == next) continue;
      visit(stage, EdgeId{here, next, Direction::kActivation},
            EdgeId{next, here, Direction::kGradient});
    }
  };
  for_each_wire([this](StageIndex, const EdgeId& forth, const EdgeId& back) {
    edges_.push_back(forth);
    edges_.push_back(back);
  });
  std::sort(edges_.begin(), edges_.end());
  edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
  const auto find = [this](const EdgeId& edge) {
    return static_cast<int>(
        std::lower_bound(edges_.begin(), edges_.end(), edge) - edges_.begin());
  };
  for_each_wire([&](StageIndex stage, const EdgeId& forth, const EdgeId& back) {
    activation_out_[stage.index()] = find(forth);
    gradient_out_[stage.Next().index()] = find(back);
  });
}

int EdgeTable::Of(const Action& action) const {
  switch (action.kind) {
    case ActionKind::kSendActivation:
    case ActionKind::kAwaitActivationRelease:
      return ActivationOut(action.stage);
    case ActionKind::kReceiveActivation:
      return ActivationIn(action.stage);
    case ActionKind::kSendGradient:
    case ActionKind::kAwaitGradientRelease:
      return GradientOut(action.stage);
    case ActionKind::kReceiveGradient:
      return GradientIn(action.stage);
    default:
      return -1;
  }
}

}  // namespace stagecoach::schedule
