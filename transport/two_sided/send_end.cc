#include "transport/two_sided/send_end.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "transport/ring/wire_format.h"

namespace stagecoach::transport::two_sided {

SendEnd::SendEnd(ring::EdgeContext context, std::shared_ptr<Shared> shared,
                 Endpoint::AckHandler on_acknowledged)
    : EdgeEnd(std::move(context), std::move(shared), Way::kSend),
      on_acknowledged_(std::move(on_acknowledged)) {}

// --- opening -----------------------------------------------------------------

void SendEnd::PrepareOpening(const std::string& address, uint64_t connection,
                             absl::Duration within, Opened opened) {
  peer_ = address;
  connection_ = connection;
  opened_ = std::move(opened);
  open_deadline_ = shared_->limits.clock->Now() + within;
  open_within_ = within;
}

void SendEnd::Open() {
  // Aborted, or failed while it waited for its turn.
  if (phase_ == Phase::kOver) return FailUnderWay();
  absl::StatusOr<std::string> introduction = Introduce();
  if (!introduction.ok()) return Break(introduction.status());
  ControlMessage open;
  open.kind = ControlKind::kOpen;
  open.text = *std::move(introduction);
  Send(std::move(open));
}

void SendEnd::CheckOpening(absl::Time now) {
  if (now < open_deadline_) return;
  Break(absl::UnavailableError(absl::StrCat(
      "its peer did not answer within ", absl::FormatDuration(open_within_),
      "; look at the peer's log: it may wait for another edge")));
}

bool SendEnd::ConnectFailed(const absl::Status& why) {
  if (opened_ == nullptr) return false;
  std::exchange(opened_, nullptr)(Error(why.code(), why.message()));
  return true;
}

absl::Status SendEnd::OnWelcome(const ControlMessage& message) {
  if (phase_ != Phase::kApart) {
    return absl::DataLossError("its peer welcomed this worker twice");
  }
  {
    MutexLock lock(&mu_);
    slot_bytes_ = static_cast<size_t>(message.number);
  }
  return Connect(message.text, open_deadline_, open_within_);
}

void SendEnd::OnReady() { std::exchange(opened_, nullptr)(absl::OkStatus()); }

absl::Status SendEnd::HandleMessage(const ControlMessage& message) {
  switch (message.kind) {
    case ControlKind::kWelcome:
      return OnWelcome(message);
    case ControlKind::kRefuse:
      // Already says which edge.
      if (opened_ != nullptr) {
        peer_left_ = true;
        std::exchange(opened_, nullptr)(absl::Status(
            static_cast<absl::StatusCode>(message.number), message.text));
        Aborted();
      }
      return absl::OkStatus();
    case ControlKind::kGrant:
      if (message.number < granted_) break;
      granted_ = message.number;
      return absl::OkStatus();
    case ControlKind::kLanded:
      if (message.number < landed_ || message.number > announced_) break;
      landed_ = message.number;
      return absl::OkStatus();
    case ControlKind::kAcknowledge:
      return OnAcknowledged(message);
    default:
      break;
  }
  return absl::DataLossError(
      absl::StrCat("its receiver sent message ", static_cast<int>(message.kind),
                   " with the impossible number ", message.number));
}

absl::Status SendEnd::OnAcknowledged(const ControlMessage& message) {
  {
    MutexLock lock(&mu_);
    acknowledged_.insert(acknowledged_.end(), message.headers.begin(),
                         message.headers.end());
  }
  RingOwnBell();
  return absl::OkStatus();
}

// --- transfers ---------------------------------------------------------------

absl::Status SendEnd::Check(const TransferHeader& header,
                            const std::vector<OutgoingTensor>& tensors) const {
  const absl::StatusOr<ring::EncodedTransfer> transfer =
      ring::EncodeTransfer(header, tensors);
  if (!transfer.ok()) {
    return Error(
        transfer.status().code(),
        absl::StrCat(ToString(header), ": ", transfer.status().message()));
  }
  MutexLock lock(&mu_);
  if (transfer->bytes <= slot_bytes_) return absl::OkStatus();
  return Error(
      absl::StatusCode::kInvalidArgument,
      absl::StrCat(ToString(header), ": a transfer of ", transfer->bytes,
                   " bytes; a slot holds ", slot_bytes_,
                   "; open the receiving end with larger slots"));
}

void SendEnd::PostSend(const TransferHeader& header,
                       std::vector<OutgoingTensor> tensors,
                       SendEdge::LocalCompletion done) {
  absl::Status status = Check(header, tensors);
  Pending pending;
  if (status.ok()) {
    auto computed = shared_->carrier->MarkWork();
    status = computed.status();
    if (computed.ok()) pending.computed = *std::move(computed);
  }
  bool accepted = false;
  {
    MutexLock lock(&mu_);
    if (!IsOpenLocked()) {
      CompleteLocked(std::move(done), end_status_);
    } else if (!status.ok()) {
      CompleteLocked(std::move(done), std::move(status));
    } else {
      pending.header = header;
      pending.tensors = std::move(tensors);
      pending.done = std::move(done);
      queue_.push_back(std::move(pending));
      accepted = true;
    }
  }
  if (accepted) {
    shared_->reactor.Wake();
  } else {
    RingOwnBell();
  }
}

bool SendEnd::StartTransfers() {
  bool any = false;
  while (phase_ == Phase::kReady && announced_ < granted_) {
    Pending pending;
    {
      MutexLock lock(&mu_);
      if (!IsOpenLocked() || queue_.empty()) break;
      pending = std::move(queue_.front());
      queue_.pop_front();
    }
    Announce(pending);
    GroupTransfer transfer;
    transfer.sequence = announced_++;
    transfer.after = std::move(pending.computed);
    for (const OutgoingTensor& tensor : pending.tensors) {
      // What is sent is not written.
      transfer.pieces.push_back(
          Piece{const_cast<void*>(tensor.data), tensor.descriptor.bytes()});
    }
    communicator()->Submit(std::move(transfer));
    under_way_.push_back(std::move(pending.done));
    any = true;
  }
  return any;
}

void SendEnd::Announce(const Pending& pending) {
  ControlMessage announcement;
  announcement.kind = ControlKind::kAnnounce;
  announcement.number = announced_;
  announcement.headers.push_back(pending.header);
  for (const OutgoingTensor& tensor : pending.tensors) {
    announcement.tensors.push_back(tensor.descriptor);
  }
  Send(std::move(announcement));
}

void SendEnd::OnCompleted(uint64_t /*sequence*/) {
  SendEdge::LocalCompletion done = std::move(under_way_.front());
  under_way_.pop_front();
  {
    MutexLock lock(&mu_);
    if (HasEndedLocked()) {
      CompleteLocked(std::move(done), end_status_);
    } else {
      completed_.push_back(std::move(done));
    }
  }
  RingOwnBell();
}

void SendEnd::FailUnderWay() {
  MutexLock lock(&mu_);
  if (opened_ != nullptr) {
    std::exchange(opened_, nullptr)(
        end_status_.ok() ? absl::CancelledError("given up") : end_status_);
  }
  for (SendEdge::LocalCompletion& done : under_way_) {
    CompleteLocked(std::move(done), end_status_);
  }
  under_way_.clear();
}

// --- the user's side ---------------------------------------------------------

void SendEnd::CompleteLocked(SendEdge::LocalCompletion done,
                             absl::Status status) {
  callbacks_.Push([done = std::move(done), status = std::move(status)](
                      bool /*cancelled*/) { done(status); });
}

absl::Status SendEnd::DrainLocked(bool* any) {
  for (SendEdge::LocalCompletion& done : completed_) {
    CompleteLocked(std::move(done), absl::OkStatus());
    *any = true;
  }
  completed_.clear();
  for (const TransferHeader& header : acknowledged_) {
    callbacks_.Push([this, header](bool cancelled) {
      if (!cancelled && on_acknowledged_) on_acknowledged_(header);
    });
    *any = true;
  }
  acknowledged_.clear();
  return absl::OkStatus();
}

// What the library still reads is completed when that has ended.
void SendEnd::FailOutstandingLocked() {
  for (SendEdge::LocalCompletion& done : completed_) {
    CompleteLocked(std::move(done), end_status_);
  }
  completed_.clear();
  for (Pending& pending : queue_) {
    CompleteLocked(std::move(pending.done), end_status_);
  }
  queue_.clear();
}

}  // namespace stagecoach::transport::two_sided
