#ifndef STAGECOACH_SCHEDULE_SCHEDULE_H_
#define STAGECOACH_SCHEDULE_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "schedule/action.h"

namespace stagecoach::schedule {

// Limits of what is generated and read.
inline constexpr int kMaxWorkers = 65536;
inline constexpr int64_t kMaxActions = 64'000'000;

// One FIFO of transfers between two workers in one direction.
struct EdgeId {
  WorkerIndex from;
  WorkerIndex to;
  Direction direction = Direction::kActivation;

  friend bool operator==(const EdgeId& a, const EdgeId& b) {
    return a.from == b.from && a.to == b.to && a.direction == b.direction;
  }
  friend bool operator<(const EdgeId& a, const EdgeId& b) {
    return std::tie(a.from, a.to, a.direction) <
           std::tie(b.from, b.to, b.direction);
  }
  template <typename H>
  friend H AbslHashValue(H h, const EdgeId& edge) {
    return H::combine(std::move(h), edge.from, edge.to,
                      static_cast<int>(edge.direction));
  }
};

std::string ToString(const EdgeId& edge);  // "0->1 activation"

// Written by lowering for each edge that the lists use.
struct EdgePlan {
  EdgeId edge;
  // D: receives that the receiver grants ahead of its RECV actions.
  int receive_depth = 0;
  // Slots that the receiver's pool needs: the peak over its list of (received,
  // last use not yet) + D.
  int pool_slots = 0;
};

// Placement and, for each worker, the list of actions of one step, executed
// strictly in order. A value: no invariant beyond its shape until the verifier
// has accepted it.
struct Schedule {
  std::string kind;           // the generator's name, or "custom"
  int workers = 0;            // P
  int stages_per_worker = 1;  // V
  int microbatches = 0;       // M
  // Worker of each stage; its size is S.
  std::vector<WorkerIndex> placement;
  // By worker.
  std::vector<std::vector<Action>> actions;
  // K. 0: compute actions only, not lowered yet; the fields below are empty.
  int send_budget = 0;
  std::vector<EdgePlan> edges;  // ascending by edge

  int stages() const { return static_cast<int>(placement.size()); }
  bool lowered() const { return send_budget > 0; }
  WorkerIndex WorkerOf(StageIndex stage) const {
    return placement[stage.index()];
  }
  bool IsFirst(StageIndex stage) const { return stage.value() == 0; }
  bool IsLast(StageIndex stage) const { return stage.value() == stages() - 1; }
  // Whether the output of `stage` goes to another worker.
  bool SendsActivation(StageIndex stage) const {
    return !IsLast(stage) && WorkerOf(stage) != WorkerOf(stage.Next());
  }
  // Whether the input gradient of `stage` goes to another worker.
  bool SendsGradient(StageIndex stage) const {
    return !IsFirst(stage) && WorkerOf(stage) != WorkerOf(stage.Previous());
  }
  // The edge of a send or await action (this worker sends), or of a receive
  // action (this worker receives).
  EdgeId EdgeOf(const Action& action) const;
  // Stages of a worker, ascending.
  std::vector<StageIndex> StagesOf(WorkerIndex worker) const;
};

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_SCHEDULE_H_
