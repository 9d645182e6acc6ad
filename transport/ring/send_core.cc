#include "transport/ring/send_core.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::transport::ring {

SendCore::SendCore(EdgeContext context, std::shared_ptr<EdgeMemory> memory,
                   std::unique_ptr<Doorbell> peer_bell,
                   std::unique_ptr<PeerLink> link,
                   Endpoint::AckHandler on_acknowledged)
    : EdgeCore(std::move(context)),
      memory_(std::move(memory)),
      on_acknowledged_(std::move(on_acknowledged)),
      control_(memory_->control_consumer()),
      notices_(memory_->notice_producer()),
      granted_(static_cast<size_t>(memory_->slots()), false),
      taken_(granted_.size(), false) {
  peer_bell_ = std::move(peer_bell);
  link_ = std::move(link);
}

absl::StatusOr<EncodedTransfer> SendCore::Encode(
    const TransferHeader& header,
    const std::vector<OutgoingTensor>& tensors) const {
  absl::StatusOr<EncodedTransfer> transfer =
      EncodeTransferForSlot(header, tensors, memory_->slot_bytes());
  if (!transfer.ok()) {
    return Error(transfer.status().code(), transfer.status().message());
  }
  return transfer;
}

void SendCore::PostSend(const TransferHeader& header,
                        std::vector<OutgoingTensor> tensors,
                        SendEdge::LocalCompletion done) {
  absl::StatusOr<EncodedTransfer> transfer = Encode(header, tensors);
  bool news = true;
  {
    MutexLock lock(&mu_);
    if (!IsOpenLocked()) {
      CompleteLocked(std::move(done), end_status_);
    } else if (!transfer.ok()) {
      CompleteLocked(std::move(done), transfer.status());
    } else {
      queue_.push_back(Pending{*std::move(transfer), std::move(tensors),
                               std::move(done), std::nullopt});
      // Otherwise the grant will ring.
      news = !grants_.empty() || control_.HasNews();
    }
  }
  if (news) RingOwnBell();
}

std::optional<WritableSlot> SendCore::TakeSlot() {
  bool any = false;
  std::optional<WritableSlot> slot;
  {
    MutexLock lock(&mu_);
    // Those that wait for a slot come first.
    if (!IsOpenLocked() || !queue_.empty()) return std::nullopt;
    if (absl::Status drained = DrainLocked(&any); !drained.ok()) {
      BreakLocked(drained);
      any = true;
    } else if (!grants_.empty()) {
      const uint32_t index = grants_.front();
      grants_.pop_front();
      taken_[index] = true;
      slot = WritableSlot{memory_->slot(index), memory_->slot_bytes(), index,
                          memory_};
    }
  }
  // Acknowledgements may have come along: Progress() passes them on.
  if (any) RingOwnBell();
  return slot;
}

bool SendCore::IsTakenLocked(const WritableSlot& slot) const {
  return slot.index < taken_.size() && taken_[slot.index] &&
         slot.data == memory_->slot(slot.index);
}

void SendCore::ReturnSlot(const WritableSlot& slot) {
  {
    MutexLock lock(&mu_);
    if (!IsTakenLocked(slot)) return;
    taken_[slot.index] = false;
    grants_.push_front(slot.index);
    if (queue_.empty()) return;
  }
  RingOwnBell();
}

void SendCore::PostSendFromSlot(const TransferHeader& header,
                                const TensorDescriptor& tensor,
                                const WritableSlot& slot,
                                SendEdge::LocalCompletion done) {
  std::vector<OutgoingTensor> tensors = {OutgoingTensor{tensor, slot.data}};
  absl::StatusOr<EncodedTransfer> transfer = Encode(header, tensors);
  Doorbell* bell = nullptr;
  {
    MutexLock lock(&mu_);
    if (!IsOpenLocked()) {
      CompleteLocked(std::move(done), end_status_);
    } else if (!transfer.ok()) {
      CompleteLocked(std::move(done), transfer.status());
    } else if (!IsTakenLocked(slot)) {
      CompleteLocked(std::move(done), Error(absl::StatusCode::kInvalidArgument,
                                            "the slot was not taken"));
    } else {
      Pending pending{*std::move(transfer), {}, std::move(done), slot.index};
      taken_[slot.index] = false;
      // In the order of posting, also behind those that wait for a slot.
      if (queue_.empty() && !copying_) {
        PublishLocked(std::move(pending), slot.index);
      } else {
        queue_.push_back(std::move(pending));
      }
    }
    bell = TakeRingLocked();
  }
  if (bell != nullptr) bell->Ring();
  RingOwnBell();
}

void SendCore::CompleteLocked(SendEdge::LocalCompletion done,
                              absl::Status status) {
  callbacks_.Push([done = std::move(done), status = std::move(status)](
                      bool /*cancelled*/) { done(status); });
}

void SendCore::FailOutstandingLocked() {
  for (Pending& pending : queue_) {
    CompleteLocked(std::move(pending.done), end_status_);
  }
  queue_.clear();
}

absl::Status SendCore::DrainLocked(bool* any) {
  while (true) {
    ControlMessage message;
    const RingResult result = control_.TryPop(&message);
    if (result == RingResult::kCorrupt) {
      return absl::DataLossError("the peer's control ring is corrupt");
    }
    if (result == RingResult::kNothing) break;
    *any = true;
    SC_RETURN_IF_ERROR(HandleLocked(message));
  }
  if (control_.TakeStarved()) ring_peer_ = true;
  return absl::OkStatus();
}

absl::Status SendCore::HandleLocked(const ControlMessage& message) {
  switch (static_cast<ControlKind>(message.kind)) {
    case ControlKind::kGrant:
      return TakeGrantLocked(message.slot);
    case ControlKind::kAcknowledgement:
      return TakeAcknowledgementLocked(message.header);
  }
  return absl::DataLossError(
      absl::StrCat("the peer sent the unknown message ", message.kind));
}

absl::Status SendCore::TakeGrantLocked(uint32_t slot) {
  if (slot >= granted_.size()) {
    return absl::DataLossError(
        absl::StrCat("the peer granted slot ", slot, " of ", granted_.size()));
  }
  if (granted_[slot]) {
    return absl::DataLossError(
        absl::StrCat("the peer granted slot ", slot, " twice"));
  }
  granted_[slot] = true;
  grants_.push_back(slot);
  return absl::OkStatus();
}

absl::Status SendCore::TakeAcknowledgementLocked(const WireHeader& wire) {
  SC_ASSIGN_OR_RETURN(const TransferHeader header, DecodeHeader(wire));
  callbacks_.Push([this, header](bool cancelled) {
    if (!cancelled && on_acknowledged_) on_acknowledged_(header);
  });
  return absl::OkStatus();
}

bool SendCore::Work() {
  Pending pending;
  uint32_t slot = 0;
  {
    MutexLock lock(&mu_);
    if (!IsOpenLocked() || queue_.empty()) return false;
    const std::optional<uint32_t> own = queue_.front().slot;
    if (!own && grants_.empty()) return false;
    pending = std::move(queue_.front());
    queue_.pop_front();
    slot = own ? *own : grants_.front();
    if (!own) grants_.pop_front();
    copying_ = true;
  }
  if (!pending.slot) CopyIntoSlot(pending, slot);
  Doorbell* bell = nullptr;
  {
    MutexLock lock(&mu_);
    copying_ = false;
    PublishLocked(std::move(pending), slot);
    bell = TakeRingLocked();
  }
  if (bell != nullptr) bell->Ring();
  return true;
}

void SendCore::CopyIntoSlot(const Pending& pending, uint32_t slot) const {
  char* const base = memory_->slot(slot);
  for (size_t i = 0; i < pending.tensors.size(); ++i) {
    const OutgoingTensor& tensor = pending.tensors[i];
    const size_t bytes = tensor.descriptor.bytes();
    if (bytes == 0) continue;  // memcpy from null is undefined even then
    std::memcpy(base + pending.transfer.offsets[i], tensor.data, bytes);
  }
}

// The edge may have ended during the copy: then the transfer failed.
void SendCore::PublishLocked(Pending pending, uint32_t slot) {
  if (IsOpenLocked()) {
    PayloadNotice& notice = pending.transfer.notice;
    notice.sequence = next_sequence_++;
    notice.slot = slot;
    granted_[slot] = false;
    // There is room for a notice of every slot: full is as wrong as corrupt.
    if (notices_.TryPush(notice) == RingResult::kDone) {
      ring_peer_ = true;
    } else {
      BreakLocked(absl::DataLossError("the peer's notice ring is corrupt"));
    }
  }
  CompleteLocked(std::move(pending.done), end_status_);
}

}  // namespace stagecoach::transport::ring
