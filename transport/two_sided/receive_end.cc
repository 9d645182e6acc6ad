#include "transport/two_sided/receive_end.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/ring/edge_memory.h"
#include "transport/ring/wire_format.h"

namespace stagecoach::transport::two_sided {
namespace {

absl::StatusOr<size_t> PoolBytes(const EdgeOptions& options) {
  if (options.slots < 1 || options.slots > ring::kMaxSlots) {
    return absl::InvalidArgumentError(absl::StrCat("a pool of ", options.slots,
                                                   " slots; it must have 1 to ",
                                                   ring::kMaxSlots));
  }
  if (options.slot_bytes < 1 || options.slot_bytes > ring::kMaxTransferBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slot of ", options.slot_bytes,
                     " bytes; it must have 1 to ", ring::kMaxTransferBytes));
  }
  return static_cast<size_t>(options.slots) * AlignedBytes(options.slot_bytes);
}

}  // namespace

absl::StatusOr<std::shared_ptr<ReceiveEnd>> ReceiveEnd::Create(
    ring::EdgeContext context, std::shared_ptr<Shared> shared,
    const EdgeOptions& options) {
  SC_ASSIGN_OR_RETURN(const size_t bytes, PoolBytes(options));
  SC_ASSIGN_OR_RETURN(std::shared_ptr<PoolMemory> pool,
                      shared->carrier->AllocatePool(bytes));
  return std::shared_ptr<ReceiveEnd>(new ReceiveEnd(
      std::move(context), std::move(shared), options, std::move(pool)));
}

ReceiveEnd::ReceiveEnd(ring::EdgeContext context,
                       std::shared_ptr<Shared> shared,
                       const EdgeOptions& options,
                       std::shared_ptr<PoolMemory> pool)
    : EdgeEnd(std::move(context), std::move(shared), Way::kReceive),
      slot_bytes_(options.slot_bytes),
      poison_returned_(options.poison_returned),
      pool_(std::move(pool)) {
  for (size_t slot = static_cast<size_t>(options.slots); slot-- > 0;) {
    free_.push_back(FreeSlot{slot, nullptr});
  }
}

// --- opening -----------------------------------------------------------------

absl::Status ReceiveEnd::CheckFree() const {
  MutexLock lock(&mu_);
  if (!IsOpenLocked()) {
    return Error(absl::StatusCode::kFailedPrecondition,
                 "its receiving end has ended");
  }
  if (peer_.empty()) return absl::OkStatus();
  return Error(absl::StatusCode::kFailedPrecondition,
               "it has a sender already");
}

void ReceiveEnd::Welcome(const std::string& sender, uint64_t connection,
                         const std::string& introduction) {
  peer_ = sender;
  connection_ = connection;
  absl::StatusOr<std::string> own = Introduce();
  if (!own.ok()) return Break(own.status());
  ControlMessage welcome;
  welcome.kind = ControlKind::kWelcome;
  welcome.number = slot_bytes_;
  welcome.text = *std::move(own);
  Send(std::move(welcome));
  const Limits& limits = shared_->limits;
  const absl::Status begun =
      Connect(introduction, limits.clock->Now() + limits.initialise_within,
              limits.initialise_within);
  if (!begun.ok()) Break(begun);
}

void ReceiveEnd::OnReady() {
  const absl::Status registered = communicator()->Register(*pool_);
  // Slower, and just as right.
  if (!registered.ok())
    LogWarning(Error(registered.code(), registered.message()).message());
}

// --- transfers ---------------------------------------------------------------

absl::Status ReceiveEnd::HandleMessage(const ControlMessage& message) {
  if (message.kind != ControlKind::kAnnounce) {
    return absl::DataLossError(
        absl::StrCat("its sender sent the unexpected message ",
                     static_cast<int>(message.kind)));
  }
  const uint64_t expected = submitted_ + announced_.size();
  if (message.number != expected) {
    return absl::DataLossError(absl::StrCat("its sender announced transfer ",
                                            message.number, " instead of ",
                                            expected));
  }
  if (message.number >= granted_) {
    return absl::DataLossError(absl::StrCat("its sender announced transfer ",
                                            message.number,
                                            ", which it was not granted"));
  }
  announced_.push_back(message);
  return absl::OkStatus();
}

bool ReceiveEnd::StartTransfers() {
  bool any = StartAnnounced();
  if (phase_ != Phase::kReady) return any;
  any = SendGrants() || any;
  return SendAcknowledgements() || any;
}

bool ReceiveEnd::SendGrants() {
  const uint64_t before = granted_;
  {
    MutexLock lock(&mu_);
    if (!IsOpenLocked()) return false;
    // A granted transfer that is not submitted needs one of the free slots.
    while (ungranted_ > 0 && free_.size() > granted_ - submitted_) {
      --ungranted_;
      ++granted_;
    }
  }
  if (granted_ == before) return false;
  ControlMessage grant;
  grant.kind = ControlKind::kGrant;
  grant.number = granted_;
  Send(std::move(grant));
  return true;
}

bool ReceiveEnd::SendAcknowledgements() {
  std::vector<TransferHeader> headers;
  {
    MutexLock lock(&mu_);
    headers.swap(acknowledgements_);
  }
  for (size_t begin = 0; begin < headers.size();) {
    const size_t end = std::min(headers.size(), begin + kMaxHeadersPerMessage);
    ControlMessage message;
    message.kind = ControlKind::kAcknowledge;
    for (; begin < end; ++begin) message.headers.push_back(headers[begin]);
    Send(std::move(message));
  }
  return !headers.empty();
}

bool ReceiveEnd::StartAnnounced() {
  bool any = false;
  while (!announced_.empty()) {
    {
      // What comes after this end was closed has nobody to go to.
      MutexLock lock(&mu_);
      if (HasEndedLocked()) return any;
    }
    const ControlMessage announcement = std::move(announced_.front());
    announced_.pop_front();
    if (absl::Status status = StartOne(announcement); !status.ok()) {
      Break(status);
      return true;
    }
    any = true;
  }
  return any;
}

absl::Status ReceiveEnd::StartOne(const ControlMessage& announcement) {
  FreeSlot slot{};
  {
    MutexLock lock(&mu_);
    slot = std::move(free_.back());
    free_.pop_back();
  }
  Filling filling;
  filling.slot = slot.slot;
  filling.transfer.header = announcement.headers[0];
  SC_RETURN_IF_ERROR(Place(announcement, slot.slot, &filling.transfer.tensors));
  GroupTransfer transfer;
  transfer.sequence = submitted_++;
  transfer.after = std::move(slot.read);
  for (const IncomingTensor& tensor : filling.transfer.tensors) {
    transfer.pieces.push_back(Piece{tensor.data, tensor.descriptor.bytes()});
  }
  filling_.push_back(std::move(filling));
  communicator()->Submit(std::move(transfer));
  return absl::OkStatus();
}

absl::Status ReceiveEnd::Place(const ControlMessage& message, size_t slot,
                               std::vector<IncomingTensor>* tensors) const {
  ring::TensorPlacer placer;
  for (const TensorDescriptor& descriptor : message.tensors) {
    SC_ASSIGN_OR_RETURN(const size_t offset, placer.Add(descriptor));
    tensors->push_back(IncomingTensor{descriptor, SlotData(slot) + offset});
  }
  if (placer.bytes() <= slot_bytes_) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("its sender announced ", placer.bytes(),
                   " bytes for a slot of ", slot_bytes_));
}

void ReceiveEnd::OnCompleted(uint64_t sequence) {
  Filling filling = std::move(filling_.front());
  filling_.pop_front();
  ReceivedTransfer transfer = std::move(filling.transfer);
  transfer.memory = std::shared_ptr<void>(
      SlotData(filling.slot), [self = shared_from_this(), slot = filling.slot](
                                  void*) { self->ReturnSlot(slot); });
  ControlMessage landed;
  landed.kind = ControlKind::kLanded;
  landed.number = sequence + 1;
  if (!peer_left_) Send(std::move(landed));
  {
    MutexLock lock(&mu_);
    // Dropped below where nobody takes it any more.
    if (!HasEndedLocked()) arrived_.push_back(std::move(transfer));
  }
  RingOwnBell();
}

// --- the user's side ---------------------------------------------------------

void ReceiveEnd::PostReceive(ReceiveEdge::Completion done) {
  bool ended = false;
  {
    MutexLock lock(&mu_);
    receives_.push_back(std::move(done));
    ended = !IsOpenLocked();
    if (ended) {
      FailOutstandingLocked();
    } else {
      ++ungranted_;
    }
  }
  if (ended) {
    RingOwnBell();
  } else {
    shared_->reactor.Wake();
  }
}

void ReceiveEnd::Acknowledge(const TransferHeader& header) {
  {
    MutexLock lock(&mu_);
    if (!IsOpenLocked()) return;
    acknowledgements_.push_back(header);
  }
  shared_->reactor.Wake();
}

absl::Status ReceiveEnd::DrainLocked(bool* any) {
  // A granted transfer means a posted receive.
  for (ReceivedTransfer& transfer : arrived_) {
    callbacks_.Push([done = std::move(receives_.front()),
                     transfer = std::move(transfer)](bool cancelled) mutable {
      if (cancelled) {
        done(absl::CancelledError("the edge was closed"));
      } else {
        done(std::move(transfer));
      }
    });
    receives_.pop_front();
    *any = true;
  }
  arrived_.clear();
  return absl::OkStatus();
}

void ReceiveEnd::FailOutstandingLocked() {
  for (ReceiveEdge::Completion& done : receives_) {
    callbacks_.Push([done = std::move(done), status = end_status_](
                        bool /*cancelled*/) { done(status); });
  }
  receives_.clear();
  ungranted_ = 0;
  // Their slots come back through this end's lock, so not under it: the
  // callbacks' queue drops them.
  for (ReceivedTransfer& transfer : arrived_) {
    callbacks_.Push([transfer = std::move(transfer)](bool /*cancelled*/) {});
  }
  arrived_.clear();
}

void ReceiveEnd::ReturnSlot(size_t slot) {
  FreeSlot returned{slot, nullptr};
  if (poison_returned_) {
    // Still this slot's only owner: no lock needed.
    (void)pool_->Fill(slot * AlignedBytes(slot_bytes_),
                      AlignedBytes(slot_bytes_), 0xFF);
  }
  auto read = shared_->carrier->MarkWork();
  // Not known when the engine has read it: it is never used again.
  if (!read.ok()) return;
  returned.read = *std::move(read);
  {
    MutexLock lock(&mu_);
    free_.push_back(std::move(returned));
    if (!IsOpenLocked()) return;
  }
  shared_->reactor.Wake();
}

}  // namespace stagecoach::transport::two_sided
