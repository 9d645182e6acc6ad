#ifndef STAGECOACH_SCHEDULE_GENERATORS_V_LIST_H_
#define STAGECOACH_SCHEDULE_GENERATORS_V_LIST_H_

#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "schedule/schedule.h"

namespace stagecoach::schedule {

// Writes the list of one worker of a V-shaped placement the way such schedules
// are published: "the next forward of chunk 0, ...". Chunk 0 is the worker's
// stage on the way there, chunk 1 the one on the way back. A published order
// that needs more microbatches than there are is written for as many as it
// needs; the surplus ones leave no action.
class VList {
 public:
  VList(int workers, int worker, int microbatches);

  void Forward(int chunk);
  void Backward(int chunk);
  // Puts the weight gradient off, to a WeightOf or OldestWeight.
  void BackwardInput(int chunk);
  // The oldest weight gradient of a chunk that was put off.
  void WeightOf(int chunk);
  // The oldest one that was put off.
  void OldestWeight();

  int forwards(int chunk) const { return forwards_[Index(chunk)]; }
  int backwards(int chunk) const { return backwards_[Index(chunk)]; }
  int weights_put_off() const { return static_cast<int>(put_off_.size()); }
  std::vector<Action> Take() { return std::move(list_); }

 private:
  static size_t Index(int chunk) { return static_cast<size_t>(chunk); }
  void Add(ActionKind kind, int chunk, int microbatch);

  const std::array<StageIndex, 2> stages_;  // by chunk
  const int microbatches_;
  std::array<int, 2> forwards_ = {0, 0};
  std::array<int, 2> backwards_ = {0, 0};
  std::deque<std::pair<int, int>> put_off_;  // (chunk, microbatch)
  std::vector<Action> list_;
};

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_GENERATORS_V_LIST_H_
