#include "stage_worker/output_slots.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach::worker {

using schedule::Action;
using schedule::ActionKind;

std::optional<LinkEdge> OutputSlots::EdgeOfOutput(const Action& action) const {
  Action send = action;
  if (action.kind == ActionKind::kForward) {
    if (!schedule_.SendsActivation(action.stage)) return std::nullopt;
    send.kind = ActionKind::kSendActivation;
  } else {
    if (action.kind == ActionKind::kBackwardWeight) return std::nullopt;
    if (!schedule_.SendsGradient(action.stage)) return std::nullopt;
    send.kind = ActionKind::kSendGradient;
  }
  LinkEdge edge;
  edge.id = schedule_.EdgeOf(send);
  return edge;
}

bool OutputSlots::IsSentNext(size_t at, const LinkEdge& edge) const {
  const std::vector<Action>& list = schedule_.actions[worker_.index()];
  for (size_t i = at + 1; i < list.size(); ++i) {
    if (!IsSend(list[i].kind) || !(schedule_.EdgeOf(list[i]) == edge.id)) {
      continue;
    }
    return list[i].stage == list[at].stage &&
           list[i].microbatch == list[at].microbatch;
  }
  return false;
}

void OutputSlots::Offer(size_t at) {
  ReturnUnused();
  const Action& action = schedule_.actions[worker_.index()][at];
  const std::optional<LinkEdge> edge = EdgeOfOutput(action);
  if (!edge || !IsSentNext(at, *edge)) return;
  std::optional<transport::WritableSlot> slot = link_->TakeSlot(*edge);
  if (!slot) return;
  offered_.emplace();
  offered_->edge = *edge;
  offered_->slot = *std::move(slot);
  offered_->memory =
      std::make_shared<std::shared_ptr<void>>(offered_->slot.memory);
  engine_->OfferOutput(
      OutputSlot{offered_->slot.data, offered_->slot.bytes, offered_->memory});
}

absl::StatusOr<std::optional<SlotOutput>> OutputSlots::Take(
    std::vector<TensorRef>* outputs) {
  if (!offered_) return std::nullopt;
  Lent lent = *std::exchange(offered_, std::nullopt);
  if (outputs->size() != 1 || outputs->front()->data() != lent.slot.data) {
    kept_.push_back(std::move(lent));
    ReturnUnused();
    return std::nullopt;
  }
  SlotOutput output{outputs->front()->descriptor(), lent.slot};
  outputs->clear();
  // The receiver owns it from the notice on: who reads it here later, an op
  // that saved it, would read what comes after it.
  if (!lent.unused()) {
    return absl::InternalError(absl::StrCat(
        "edge ", lent.edge.Name(),
        ": an output that lies in the receiver's memory is still in use"));
  }
  return output;
}

void OutputSlots::ReturnUnused() {
  for (size_t i = kept_.size(); i-- > 0;) {
    if (!kept_[i].unused()) continue;
    link_->ReturnSlot(kept_[i].edge, kept_[i].slot);
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void OutputSlots::Clear() { offered_.reset(); }

}  // namespace stagecoach::worker
