#include "transport/tcp/receive_core.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::transport::tcp {
namespace {

uint64_t PayloadBytes(const ReceivedTransfer& transfer) {
  uint64_t bytes = 0;
  for (const IncomingTensor& tensor : transfer.tensors) {
    bytes += tensor.descriptor.bytes();
  }
  return bytes;
}

std::vector<iovec> PartsOf(const ReceivedTransfer& transfer) {
  std::vector<iovec> parts;
  for (const IncomingTensor& tensor : transfer.tensors) {
    const size_t bytes = tensor.descriptor.bytes();
    if (bytes > 0) parts.push_back(iovec{tensor.data, bytes});
  }
  return parts;
}

}  // namespace

ReceiveCore::ReceiveCore(ring::EdgeContext context,
                         std::unique_ptr<SlotPool> pool, bool poison_returned,
                         Counters* counters)
    : EdgeCore(std::move(context)),
      pool_(std::move(pool)),
      poison_returned_(poison_returned),
      counters_(counters),
      slots_(static_cast<size_t>(pool_->slots()), Slot::kFree) {
  for (uint32_t slot = static_cast<uint32_t>(slots_.size()); slot-- > 0;) {
    free_.push_back(slot);
  }
}

absl::Status ReceiveCore::Refuse(Refusal reason,
                                 const std::string& what) const {
  counters_->Refuse(reason);
  return Error(absl::StatusCode::kInvalidArgument,
               absl::StrCat("the peer ", what));
}

absl::Status ReceiveCore::Attach(std::shared_ptr<EdgePort> port) {
  MutexLock lock(&mu_);
  if (!IsOpenLocked()) {
    return Error(absl::StatusCode::kFailedPrecondition,
                 "its receiving end has ended");
  }
  if (port_ != nullptr) {
    return Error(absl::StatusCode::kFailedPrecondition,
                 "it has a sender already");
  }
  link_ = std::make_unique<PortLink>(port);
  port_ = std::move(port);
  return absl::OkStatus();
}

absl::StatusOr<EdgeOpened> ReceiveCore::Open(uint64_t seen) {
  MutexLock lock(&mu_);
  if (seen < acks_base_ || seen > acks_base_ + acks_.size()) {
    return Refuse(Refusal::kProtocol,
                  absl::StrCat("has seen ", seen, " acknowledgements"));
  }
  acks_.erase(acks_.begin(),
              acks_.begin() + static_cast<std::ptrdiff_t>(seen - acks_base_));
  acks_base_ = acks_said_ = seen;
  announced_.clear();
  reading_ = false;
  connected_ = true;
  EdgeOpened opened;
  opened.slot_bytes = pool_->slot_bytes();
  opened.received = received_said_ = received_;
  opened.granted = granted_said_ = granted_;
  return opened;
}

void ReceiveCore::OnDisconnected() {
  MutexLock lock(&mu_);
  connected_ = false;
  announced_.clear();
  reading_ = false;
}

void ReceiveCore::PostReceive(ReceiveEdge::Completion done) {
  std::shared_ptr<EdgePort> port;
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
      if (granted_ > granted_said_) port = port_;
    }
  }
  if (port != nullptr) port->Ready();
  if (ended) RingOwnBell();
}

void ReceiveCore::Acknowledge(const TransferHeader& header) {
  std::shared_ptr<EdgePort> port;
  {
    MutexLock lock(&mu_);
    if (!IsOpenLocked()) return;
    acks_.push_back(ring::EncodeHeader(header));
    port = port_;
  }
  if (port != nullptr) port->Ready();
}

void ReceiveCore::GrantLocked() {
  while (ungranted_ > 0 && !free_.empty()) {
    const uint32_t slot = free_.back();
    free_.pop_back();
    slots_[slot] = Slot::kGranted;
    granted_slots_.push_back(slot);
    ++granted_;
    --ungranted_;
  }
}

absl::Status ReceiveCore::OnAnnounce(const Announce& announce) {
  MutexLock lock(&mu_);
  // Its payload will be counted.
  if (!IsOpenLocked() || announce.sequence < received_) return absl::OkStatus();
  if (announce.sequence != received_ + announced_.size() ||
      announce.sequence >= granted_ + kMaxAnnouncedAhead) {
    return Refuse(
        Refusal::kProtocol,
        absl::StrCat("announced transfer ", announce.sequence, " out of turn"));
  }
  // Wherever it will lie, it must fit.
  absl::StatusOr<ReceivedTransfer> transfer = ring::DecodeTransfer(
      announce.notice, pool_->slot(0), pool_->slot_bytes());
  if (!transfer.ok()) {
    return Refuse(Refusal::kTooLong, absl::StrCat("announced what cannot be: ",
                                                  transfer.status().message()));
  }
  if (PayloadBytes(*transfer) != announce.payload_bytes) {
    return Refuse(
        Refusal::kTooLong,
        absl::StrCat("announced ", announce.payload_bytes,
                     " bytes for tensors of ", PayloadBytes(*transfer)));
  }
  Announced announced;
  announced.notice = announce.notice;
  announced.payload_bytes = announce.payload_bytes;
  announced_.push_back(std::move(announced));
  return absl::OkStatus();
}

absl::Status ReceiveCore::OnSeen(uint64_t seen) {
  MutexLock lock(&mu_);
  if (seen > acks_said_) {
    return Refuse(
        Refusal::kProtocol,
        absl::StrCat("has seen ", seen, " acknowledgements, of ", acks_said_));
  }
  while (acks_base_ < seen) {
    acks_.pop_front();
    ++acks_base_;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<iovec>> ReceiveCore::OnPayload(uint64_t sequence,
                                                          uint64_t bytes) {
  MutexLock lock(&mu_);
  reading_ = false;
  if (!IsOpenLocked()) return std::vector<iovec>();
  if (sequence < received_) {
    ++counters_->duplicate_transfers;
    return std::vector<iovec>();
  }
  if (sequence != received_ || sequence >= granted_ || announced_.empty()) {
    return Refuse(
        Refusal::kProtocol,
        absl::StrCat("sent transfer ", sequence,
                     ", which was not granted or announced; ", received_,
                     " have arrived, ", granted_, " are granted"));
  }
  Announced& announced = announced_.front();
  if (bytes != announced.payload_bytes) {
    return Refuse(Refusal::kTooLong,
                  absl::StrCat("sent ", bytes, " bytes after announcing ",
                               announced.payload_bytes));
  }
  SC_ASSIGN_OR_RETURN(announced.transfer,
                      ring::DecodeTransfer(announced.notice,
                                           pool_->slot(granted_slots_.front()),
                                           pool_->slot_bytes()));
  reading_ = true;
  return PartsOf(announced.transfer);
}

void ReceiveCore::OnPayloadEnd(bool cancelled) {
  std::shared_ptr<EdgePort> port;
  {
    MutexLock lock(&mu_);
    if (!std::exchange(reading_, false) || !IsOpenLocked()) return;
    // The sender has ended the edge; its slot stays granted to nobody.
    if (cancelled) return;
    Arrived arrived;
    arrived.transfer = std::move(announced_.front().transfer);
    arrived.slot = granted_slots_.front();
    announced_.pop_front();
    granted_slots_.pop_front();
    arrived_.push_back(std::move(arrived));
    ++received_;
    ++counters_->transfers_received;
    port = port_;
    RingOwnBell();
  }
  if (port != nullptr) port->Ready();
}

absl::Status ReceiveCore::DrainLocked(bool* any) {
  while (!arrived_.empty()) {
    *any = true;
    Arrived arrived = std::move(arrived_.front());
    arrived_.pop_front();
    arrived.transfer.memory = HoldLocked(arrived.slot);
    // A granted slot means a posted receive.
    callbacks_.Push(
        [done = std::move(receives_.front()),
         transfer = std::move(arrived.transfer)](bool cancelled) mutable {
          if (cancelled) {
            done(absl::CancelledError("the edge was closed"));
          } else {
            done(std::move(transfer));
          }
        });
    receives_.pop_front();
  }
  return absl::OkStatus();
}

std::shared_ptr<void> ReceiveCore::HoldLocked(uint32_t slot) {
  slots_[slot] = Slot::kHeld;
  return std::shared_ptr<void>(
      pool_->slot(slot),
      [self = shared_from_this(), slot](void*) { self->ReturnSlot(slot); });
}

void ReceiveCore::ReturnSlot(uint32_t slot) {
  if (poison_returned_) {
    // Still this slot's only owner: no lock needed.
    std::memset(pool_->slot(slot), 0xFF, AlignedBytes(pool_->slot_bytes()));
  }
  std::shared_ptr<EdgePort> port;
  {
    MutexLock lock(&mu_);
    slots_[slot] = Slot::kFree;
    free_.push_back(slot);
    if (!IsOpenLocked()) return;
    GrantLocked();
    if (granted_ > granted_said_) port = port_;
  }
  if (port != nullptr) port->Ready();
}

void ReceiveCore::FailLocked(ReceiveEdge::Completion done) {
  callbacks_.Push([done = std::move(done),
                   status = end_status_](bool /*cancelled*/) { done(status); });
}

void ReceiveCore::FailOutstandingLocked() {
  arrived_.clear();
  for (ReceiveEdge::Completion& done : receives_) FailLocked(std::move(done));
  receives_.clear();
  ungranted_ = 0;
}

// Also after the end: the last acknowledgements go out before the goodbye.
bool ReceiveCore::NextFrames(uint32_t edge, std::string* out,
                             OutgoingPayload* /*payload*/) {
  MutexLock lock(&mu_);
  const uint64_t acks_end = acks_base_ + acks_.size();
  const bool news = acks_said_ < acks_end || granted_said_ < granted_ ||
                    received_said_ < received_;
  if (!connected_ || !news) return false;
  EdgeStatus status;
  status.received = received_said_ = received_;
  status.granted = granted_said_ = granted_;
  status.first_ack = acks_said_;
  while (acks_said_ < acks_end && status.acks.size() < kMaxAcksPerFrame) {
    status.acks.push_back(acks_[acks_said_++ - acks_base_]);
  }
  AppendFrame(FrameType::kStatus, edge, Encode(status), out);
  return acks_said_ < acks_end;
}

}  // namespace stagecoach::transport::tcp
