#include "transport/tcp/send_core.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::transport::tcp {
namespace {

// The receiver keeps acknowledgements until it is told that they have arrived.
constexpr uint64_t kTellSeenEvery = 32;

uint64_t PayloadBytes(const std::vector<OutgoingTensor>& tensors) {
  uint64_t bytes = 0;
  for (const OutgoingTensor& tensor : tensors) {
    bytes += tensor.descriptor.bytes();
  }
  return bytes;
}

std::vector<iovec> PartsOf(const std::vector<OutgoingTensor>& tensors) {
  std::vector<iovec> parts;
  for (const OutgoingTensor& tensor : tensors) {
    const size_t bytes = tensor.descriptor.bytes();
    if (bytes == 0) continue;
    parts.push_back(iovec{const_cast<void*>(tensor.data), bytes});
  }
  return parts;
}

}  // namespace

SendCore::SendCore(ring::EdgeContext context,
                   Endpoint::AckHandler on_acknowledged, Counters* counters)
    : EdgeCore(std::move(context)),
      on_acknowledged_(std::move(on_acknowledged)),
      counters_(counters) {}

void SendCore::Bind(std::shared_ptr<EdgePort> port) {
  MutexLock lock(&mu_);
  link_ = std::make_unique<PortLink>(port);
  port_ = std::move(port);
}

void SendCore::PostSend(const TransferHeader& header,
                        std::vector<OutgoingTensor> tensors,
                        SendEdge::LocalCompletion done) {
  std::shared_ptr<EdgePort> port;
  {
    MutexLock lock(&mu_);
    absl::StatusOr<ring::EncodedTransfer> transfer =
        ring::EncodeTransferForSlot(header, tensors, slot_bytes_);
    if (!IsOpenLocked()) {
      CompleteLocked(std::move(done), end_status_);
    } else if (!transfer.ok()) {
      CompleteLocked(std::move(done), Error(transfer.status().code(),
                                            transfer.status().message()));
    } else {
      Pending pending;
      pending.transfer = *std::move(transfer);
      // Before anything of it can be kept, the shapes have been checked.
      pending.payload_bytes = PayloadBytes(tensors);
      pending.tensors = std::move(tensors);
      pending.done = std::move(done);
      pending_.push_back(std::move(pending));
      port = port_;
    }
  }
  if (port != nullptr) {
    port->Ready();
  } else {
    RingOwnBell();
  }
}

void SendCore::Abort(const absl::Status& status) {
  EdgeCore::Abort(status);
  std::shared_ptr<EdgePort> port;
  {
    MutexLock lock(&mu_);
    port = port_;
  }
  if (port != nullptr) port->Release();
}

void SendCore::CompleteLocked(SendEdge::LocalCompletion done,
                              absl::Status status) {
  callbacks_.Push([done = std::move(done), status = std::move(status)](
                      bool /*cancelled*/) { done(status); });
}

// Everything is pushed as it comes: there is nothing to look for.
absl::Status SendCore::DrainLocked(bool* /*any*/) { return absl::OkStatus(); }

void SendCore::FailOutstandingLocked() {
  for (Pending& pending : pending_) {
    if (in_writer_ == base_++) {
      held_back_ = std::move(pending);
    } else {
      CompleteLocked(std::move(pending.done), end_status_);
    }
  }
  pending_.clear();
}

uint64_t SendCore::seen() {
  MutexLock lock(&mu_);
  return seen_;
}

absl::Status SendCore::OnOpened(const EdgeOpened& opened) {
  MutexLock lock(&mu_);
  if (!IsOpenLocked()) return absl::OkStatus();
  if (opened.received < base_ || opened.received > end_locked()) {
    return absl::DataLossError(
        absl::StrCat("the receiver has ", opened.received, " transfers, of ",
                     base_, " to ", end_locked(), " that it may have"));
  }
  slot_bytes_ = opened.slot_bytes;
  granted_ = opened.granted;
  confirmed_ = opened.received;
  sending_ = std::max(sending_, confirmed_);
  CompleteConfirmedLocked();
  sending_ = announced_ = base_;
  connected_ = true;
  RingOwnBell();
  return absl::OkStatus();
}

void SendCore::OnDisconnected() {
  MutexLock lock(&mu_);
  connected_ = false;
}

absl::Status SendCore::OnStatus(const EdgeStatus& status, bool* advanced) {
  MutexLock lock(&mu_);
  if (!IsOpenLocked()) return absl::OkStatus();
  if (status.received > sending_ || status.received < confirmed_ ||
      status.granted < granted_) {
    return absl::DataLossError(absl::StrCat(
        "the receiver claims ", status.received, " transfers received and ",
        status.granted, " granted, after ", confirmed_, " and ", granted_,
        "; sent were ", sending_));
  }
  *advanced = status.received > confirmed_ || !status.acks.empty();
  granted_ = status.granted;
  confirmed_ = status.received;
  bool news = CompleteConfirmedLocked();
  SC_RETURN_IF_ERROR(TakeAcksLocked(status));
  if (news || !status.acks.empty()) RingOwnBell();
  return absl::OkStatus();
}

absl::Status SendCore::TakeAcksLocked(const EdgeStatus& status) {
  uint64_t sequence = status.first_ack;
  if (sequence > seen_) {
    return absl::DataLossError(absl::StrCat("acknowledgements ", seen_, " to ",
                                            sequence, " are missing"));
  }
  for (const ring::WireHeader& wire : status.acks) {
    if (sequence++ < seen_) {
      ++counters_->duplicate_acknowledgements;
      continue;
    }
    SC_ASSIGN_OR_RETURN(const TransferHeader header, ring::DecodeHeader(wire));
    ++seen_;
    callbacks_.Push([this, header](bool cancelled) {
      if (!cancelled && on_acknowledged_) on_acknowledged_(header);
    });
  }
  return absl::OkStatus();
}

// The last of them may be confirmed before the writer has looked back from its
// last write.
bool SendCore::CompleteConfirmedLocked() {
  bool any = false;
  while (base_ < confirmed_ && in_writer_ != base_ && !pending_.empty()) {
    CompleteLocked(std::move(pending_.front().done), absl::OkStatus());
    pending_.pop_front();
    ++base_;
    any = true;
  }
  return any;
}

bool SendCore::NextFrames(uint32_t edge, std::string* out,
                          OutgoingPayload* payload) {
  MutexLock lock(&mu_);
  if (!connected_ || !IsOpenLocked()) return false;
  if (seen_ - seen_told_ >= kTellSeenEvery) {
    seen_told_ = seen_;
    AppendFrame(FrameType::kSeen, edge, EncodeNumber(seen_), out);
  }
  const uint64_t limit = std::min(end_locked(), granted_ + kMaxAnnouncedAhead);
  const bool may_send = sending_ < std::min(end_locked(), granted_);
  // The next payload's own announcement is enough to send it.
  if (announced_ < limit && (!may_send || announced_ == sending_)) {
    AnnounceLocked(edge, out);
  }
  if (may_send && !in_writer_) StartPayloadLocked(edge, out, payload);
  return announced_ < limit || sending_ < std::min(end_locked(), granted_);
}

void SendCore::AnnounceLocked(uint32_t edge, std::string* out) {
  const Pending& pending = pending_[announced_ - base_];
  Announce announce;
  announce.sequence = announced_++;
  announce.payload_bytes = pending.payload_bytes;
  announce.notice = pending.transfer.notice;
  AppendFrame(FrameType::kAnnounce, edge, Encode(announce), out);
}

void SendCore::StartPayloadLocked(uint32_t edge, std::string* out,
                                  OutgoingPayload* payload) {
  Pending& pending = pending_[sending_ - base_];
  AppendFrame(FrameType::kPayload, edge, EncodeNumber(sending_), out,
              pending.payload_bytes);
  payload->present = true;
  payload->sequence = sending_;
  payload->parts = PartsOf(pending.tensors);
  if (std::exchange(pending.started, true)) ++counters_->transfers_resent;
  in_writer_ = sending_++;
}

void SendCore::OnPayloadGone(uint64_t /*sequence*/) {
  MutexLock lock(&mu_);
  in_writer_.reset();
  bool news = CompleteConfirmedLocked();
  if (held_back_) {
    CompleteLocked(std::move(held_back_->done), end_status_);
    held_back_.reset();
    news = true;
  }
  if (news) RingOwnBell();
}

}  // namespace stagecoach::transport::tcp
