#ifndef STAGECOACH_SCHEDULE_EDGE_TABLE_H_
#define STAGECOACH_SCHEDULE_EDGE_TABLE_H_

#include <vector>

#include "schedule/schedule.h"

namespace stagecoach::schedule {

// The edges that a placement can use, numbered ascending by EdgeId, and for
// each stage the edges that it sends and receives on. Immutable.
class EdgeTable {
 public:
  // `schedule`'s header must be right (shape.h).
  explicit EdgeTable(const Schedule& schedule);

  int size() const { return static_cast<int>(edges_.size()); }
  const EdgeId& id(int edge) const { return edges_[Index(edge)]; }

  // Edge of the activation that `stage` sends to the next, of the gradient
  // that it sends to the one before; -1 if that is on the same worker or there
  // is none.
  int ActivationOut(StageIndex stage) const {
    return activation_out_[stage.index()];
  }
  int GradientOut(StageIndex stage) const {
    return gradient_out_[stage.index()];
  }
  // Edge on which `stage` receives its input, or the gradient of its output.
  int ActivationIn(StageIndex stage) const {
    return stage.value() == 0 ? -1 : ActivationOut(stage.Previous());
  }
  int GradientIn(StageIndex stage) const {
    return stage.index() + 1 == gradient_out_.size()
               ? -1
               : GradientOut(stage.Next());
  }
  // Edge of a send, await or receive action.
  int Of(const Action& action) const;

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }

  std::vector<EdgeId> edges_;
  std::vector<int> activation_out_;  // by stage
  std::vector<int> gradient_out_;    // by stage
};

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_EDGE_TABLE_H_
