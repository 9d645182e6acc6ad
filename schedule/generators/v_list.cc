#include "schedule/generators/v_list.h"

#include <algorithm>

namespace stagecoach::schedule {

VList::VList(int workers, int worker, int microbatches)
    : stages_{StageIndex(worker), StageIndex(2 * workers - 1 - worker)},
      microbatches_(microbatches) {}

void VList::Forward(int chunk) {
  Add(ActionKind::kForward, chunk, forwards_[Index(chunk)]++);
}

void VList::Backward(int chunk) {
  Add(ActionKind::kBackward, chunk, backwards_[Index(chunk)]++);
}

void VList::BackwardInput(int chunk) {
  const int microbatch = backwards_[Index(chunk)]++;
  Add(ActionKind::kBackwardInput, chunk, microbatch);
  put_off_.emplace_back(chunk, microbatch);
}

void VList::WeightOf(int chunk) {
  const auto oldest =
      std::find_if(put_off_.begin(), put_off_.end(),
                   [chunk](const auto& put) { return put.first == chunk; });
  Add(ActionKind::kBackwardWeight, chunk, oldest->second);
  put_off_.erase(oldest);
}

void VList::OldestWeight() {
  const auto [chunk, microbatch] = put_off_.front();
  put_off_.pop_front();
  Add(ActionKind::kBackwardWeight, chunk, microbatch);
}

void VList::Add(ActionKind kind, int chunk, int microbatch) {
  if (microbatch >= microbatches_) return;
  list_.push_back(
      Action{kind, stages_[Index(chunk)], MicrobatchIndex(microbatch)});
}

}  // namespace stagecoach::schedule
