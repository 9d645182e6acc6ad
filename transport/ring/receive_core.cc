#include "transport/ring/receive_core.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::transport::ring {

ReceiveCore::ReceiveCore(EdgeContext context,
                         std::shared_ptr<EdgeMemory> memory,
                         bool poison_returned)
    : EdgeCore(std::move(context)),
      memory_(std::move(memory)),
      poison_returned_(poison_returned),
      control_(memory_->control_producer()),
      notices_(memory_->notice_consumer()),
      slots_(static_cast<size_t>(memory_->slots()), Slot::kFree) {
  for (uint32_t slot = static_cast<uint32_t>(slots_.size()); slot-- > 0;) {
    free_.push_back(slot);
  }
}

absl::Status ReceiveCore::Attach(std::unique_ptr<Doorbell> peer_bell,
                                 std::unique_ptr<PeerLink> link) {
  MutexLock lock(&mu_);
  if (!IsOpenLocked()) {
    return Error(absl::StatusCode::kFailedPrecondition,
                 "its receiving end has ended");
  }
  if (peer_bell_ != nullptr) {
    return Error(absl::StatusCode::kFailedPrecondition,
                 "it has a sender already");
  }
  peer_bell_ = std::move(peer_bell);
  link_ = std::move(link);
  return absl::OkStatus();
}

void ReceiveCore::PostReceive(ReceiveEdge::Completion done) {
  Doorbell* bell = nullptr;
  bool ended = false;
  {
    MutexLock lock(&mu_);
    ended = !IsOpenLocked();
    if (ended) {
      // This one alone: while the edge is ending, what has arrived for earlier
      // ones is still delivered.
      FailLocked(std::move(done));
    } else {
      receives_.push_back(std::move(done));
      ++ungranted_;
      GrantLocked();
    }
    bell = TakeRingLocked();
  }
  if (bell != nullptr) bell->Ring();
  if (ended) RingOwnBell();
}

void ReceiveCore::Acknowledge(const TransferHeader& header) {
  Doorbell* bell = nullptr;
  {
    MutexLock lock(&mu_);
    if (!IsOpenLocked()) return;
    ControlMessage message{};
    message.kind = static_cast<uint32_t>(ControlKind::kAcknowledgement);
    message.header = EncodeHeader(header);
    SendLocked(message);
    bell = TakeRingLocked();
  }
  if (bell != nullptr) bell->Ring();
}

void ReceiveCore::GrantLocked() {
  while (ungranted_ > 0 && !free_.empty()) {
    const uint32_t slot = free_.back();
    free_.pop_back();
    slots_[slot] = Slot::kGranted;
    --ungranted_;
    ControlMessage message{};
    message.kind = static_cast<uint32_t>(ControlKind::kGrant);
    message.slot = slot;
    SendLocked(message);
  }
}

// A corrupt ring is noticed here and reported by the next Progress(), in which
// errors have a place.
void ReceiveCore::SendLocked(const ControlMessage& message) {
  outbox_.push_back(message);
  if (!FlushLocked().ok()) RingOwnBell();
}

absl::Status ReceiveCore::FlushLocked() {
  while (!outbox_.empty()) {
    switch (control_.TryPush(outbox_.front())) {
      case RingResult::kNothing:
        return absl::OkStatus();  // the sender rings when it has made room
      case RingResult::kCorrupt:
        return absl::DataLossError("the peer's control ring is corrupt");
      case RingResult::kDone:
        outbox_.pop_front();
        ring_peer_ = true;
    }
  }
  return absl::OkStatus();
}

absl::Status ReceiveCore::DrainLocked(bool* any) {
  SC_RETURN_IF_ERROR(FlushLocked());
  while (true) {
    PayloadNotice notice;
    switch (notices_.TryPop(&notice)) {
      case RingResult::kNothing:
        return absl::OkStatus();
      case RingResult::kCorrupt:
        return absl::DataLossError("the peer's notice ring is corrupt");
      case RingResult::kDone:
        *any = true;
        SC_RETURN_IF_ERROR(TakeLocked(notice));
    }
  }
}

absl::Status ReceiveCore::CheckLocked(const PayloadNotice& notice) const {
  if (notice.slot >= slots_.size()) {
    return absl::DataLossError(absl::StrCat(
        "the peer announced slot ", notice.slot, " of ", slots_.size()));
  }
  if (slots_[notice.slot] != Slot::kGranted) {
    return absl::DataLossError(absl::StrCat(
        "the peer announced slot ", notice.slot, ", which it was not granted"));
  }
  if (notice.sequence != next_sequence_) {
    return absl::DataLossError(absl::StrCat("the peer announced transfer ",
                                            notice.sequence, " instead of ",
                                            next_sequence_));
  }
  return absl::OkStatus();
}

absl::Status ReceiveCore::TakeLocked(const PayloadNotice& notice) {
  SC_RETURN_IF_ERROR(CheckLocked(notice));
  SC_ASSIGN_OR_RETURN(ReceivedTransfer transfer,
                      DecodeTransfer(notice, memory_->slot(notice.slot),
                                     memory_->slot_bytes()));
  ++next_sequence_;
  transfer.memory = HoldLocked(notice.slot);
  // A granted slot means a posted receive.
  callbacks_.Push([done = std::move(receives_.front()),
                   transfer = std::move(transfer)](bool cancelled) mutable {
    if (cancelled) {
      done(absl::CancelledError("the edge was closed"));
    } else {
      done(std::move(transfer));
    }
  });
  receives_.pop_front();
  return absl::OkStatus();
}

std::shared_ptr<void> ReceiveCore::HoldLocked(uint32_t slot) {
  slots_[slot] = Slot::kHeld;
  return std::shared_ptr<void>(
      memory_->slot(slot),
      [self = shared_from_this(), slot](void*) { self->ReturnSlot(slot); });
}

void ReceiveCore::ReturnSlot(uint32_t slot) {
  if (poison_returned_) {
    // Still this slot's only owner: no lock needed.
    std::memset(memory_->slot(slot), 0xFF, AlignedBytes(memory_->slot_bytes()));
  }
  Doorbell* bell = nullptr;
  {
    MutexLock lock(&mu_);
    slots_[slot] = Slot::kFree;
    free_.push_back(slot);
    if (!IsOpenLocked()) return;
    GrantLocked();
    bell = TakeRingLocked();
  }
  // The deleter that called keeps this object, and with it the bell, alive.
  if (bell != nullptr) bell->Ring();
}

void ReceiveCore::FailLocked(ReceiveEdge::Completion done) {
  callbacks_.Push([done = std::move(done),
                   status = end_status_](bool /*cancelled*/) { done(status); });
}

void ReceiveCore::FailOutstandingLocked() {
  for (ReceiveEdge::Completion& done : receives_) FailLocked(std::move(done));
  receives_.clear();
  ungranted_ = 0;
}

}  // namespace stagecoach::transport::ring
