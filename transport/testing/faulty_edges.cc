#include "transport/testing/faulty_edges.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach::transport::faulty {
namespace {

// Whether the n-th (from 1) of something is one that comes "every n-th".
bool IsEvery(int every, int n) { return every > 0 && n % every == 0; }

}  // namespace

// --- receiving ---------------------------------------------------------------

ReceiveEdge::Completion FaultyReceive::Wrap(std::shared_ptr<FaultyReceive> self,
                                            ReceiveEdge::Completion done) {
  if (self->plan_.delay_receive_polls == 0) return done;
  return [self = std::move(self),
          done = std::move(done)](absl::StatusOr<ReceivedTransfer> result) {
    if (!result.ok()) {
      done(std::move(result));
      return;
    }
    MutexLock lock(&self->mu_);
    self->delayed_.push_back(
        Delayed{self->polls_ + self->plan_.delay_receive_polls, done,
                std::move(result)});
  };
}

void FaultyReceive::PushLocked(Delayed delayed) {
  callbacks_.Push([delayed = std::move(delayed)](bool cancelled) mutable {
    if (cancelled) {
      delayed.done(absl::CancelledError("the edge was closed"));
    } else {
      delayed.done(std::move(delayed.result));
    }
  });
}

void FaultyReceive::BeginPoll() {
  MutexLock lock(&mu_);
  ++polls_;
}

bool FaultyReceive::EndPoll() {
  CallbackQueueUse use(&callbacks_);
  if (!use) return false;
  {
    MutexLock lock(&mu_);
    while (!delayed_.empty() && delayed_.front().due <= polls_) {
      PushLocked(std::move(delayed_.front()));
      delayed_.pop_front();
    }
  }
  return callbacks_.RunAll();
}

bool FaultyReceive::Waiting() {
  MutexLock lock(&mu_);
  return !delayed_.empty();
}

void FaultyReceive::Abort(const absl::Status& status) {
  std::deque<Delayed> dropped;
  MutexLock lock(&mu_);
  for (Delayed& delayed : delayed_) {
    PushLocked(Delayed{0, delayed.done, status});
  }
  dropped.swap(delayed_);
  // `dropped` returns its slots after the lock: declared before it.
}

void FaultyReceive::Close() {
  {
    MutexLock lock(&mu_);
    for (Delayed& delayed : delayed_) PushLocked(std::move(delayed));
    delayed_.clear();
  }
  callbacks_.Close();
}

// --- sending -----------------------------------------------------------------

bool FaultySend::HasAckFaults() const {
  return plan_.delay_ack_polls != 0 || plan_.duplicate_ack_every != 0 ||
         plan_.reorder_acks || plan_.stale_ack_every != 0 ||
         plan_.unknown_ack_every != 0 || plan_.lose_ack_at != 0;
}

void FaultySend::Attach(std::unique_ptr<SendEdge> real) {
  MutexLock lock(&mu_);
  real_ = std::move(real);
}

void FaultySend::OnAcknowledged(const TransferHeader& header) {
  if (!HasAckFaults()) {
    if (on_acknowledged_) on_acknowledged_(header);
    return;
  }
  MutexLock lock(&mu_);
  const int n = ++acks_seen_;
  if (n == plan_.lose_ack_at) return;
  if (IsEvery(plan_.stale_ack_every, n)) {
    TransferHeader stale = header;
    stale.epoch =
        Epoch(header.epoch.value() - 1 - static_cast<int64_t>(random_() % 3));
    QueueAckLocked(stale);
  }
  if (IsEvery(plan_.unknown_ack_every, n)) {
    TransferHeader unknown = header;
    unknown.microbatch =
        MicrobatchIndex(1000000 + static_cast<int32_t>(random_() % 1000));
    QueueAckLocked(unknown);
  }
  QueueAckLocked(header);
  if (IsEvery(plan_.duplicate_ack_every, n)) QueueAckLocked(header);
}

void FaultySend::QueueAckLocked(const TransferHeader& header) {
  acks_.push_back(DelayedAck{polls_ + plan_.delay_ack_polls, header});
}

std::vector<TransferHeader> FaultySend::TakeDueLocked() {
  std::vector<TransferHeader> due;
  while (!acks_.empty() && acks_.front().due <= polls_) {
    due.push_back(acks_.front().header);
    acks_.pop_front();
  }
  if (plan_.reorder_acks) {
    for (size_t i = 0; i + 1 < due.size(); i += 2)
      std::swap(due[i], due[i + 1]);
  }
  return due;
}

std::shared_ptr<SendEdge> FaultySend::CountSend(
    SendEdge::LocalCompletion* done) {
  MutexLock lock(&mu_);
  if (dropped_.ok() && ++sends_ == plan_.drop_link_at_send && !aborted_) {
    dropped_ = absl::UnavailableError(
        absl::StrCat("edge \"", edge_, "\": the fault plan dropped the link ",
                     "at send ", sends_));
    drop_due_ = true;
    // Before anything fails by it, as every endpoint does.
    callbacks_.Push([this, status = dropped_](bool cancelled) {
      if (!cancelled && options_.on_edge_lost) {
        options_.on_edge_lost(edge_, status);
      }
    });
  }
  if (dropped_.ok()) return real_;
  callbacks_.Push([done = std::move(*done),
                   status = dropped_](bool /*cancelled*/) { done(status); });
  return nullptr;
}

void FaultySend::Post(const std::shared_ptr<FaultySend>& self,
                      const TransferHeader& header,
                      std::vector<OutgoingTensor> tensors,
                      SendEdge::LocalCompletion done) {
  const std::shared_ptr<SendEdge> real = self->CountSend(&done);
  if (real == nullptr) {
    self->options_.doorbell->Ring();
    return;
  }
  real->PostSend(header, std::move(tensors),
                 [self, done = std::move(done)](absl::Status status) {
                   done(self->Translate(std::move(status)));
                 });
}

absl::Status FaultySend::Translate(absl::Status status) {
  if (status.ok()) return status;
  MutexLock lock(&mu_);
  return dropped_.ok() ? status : dropped_;
}

bool FaultySend::DropLink() {
  std::shared_ptr<SendEdge> real;
  {
    MutexLock lock(&mu_);
    if (!std::exchange(drop_due_, false)) return false;
    real = std::move(real_);
    acks_.clear();
  }
  real.reset();  // its outstanding sends fail now
  return true;
}

void FaultySend::BeginPoll() {
  MutexLock lock(&mu_);
  ++polls_;
}

bool FaultySend::EndPoll() {
  CallbackQueueUse use(&callbacks_);
  if (!use) return false;
  {
    MutexLock lock(&mu_);
    for (const TransferHeader& header : TakeDueLocked()) {
      callbacks_.Push([this, header](bool cancelled) {
        if (!cancelled && on_acknowledged_) on_acknowledged_(header);
      });
    }
  }
  const bool any = callbacks_.RunAll();
  return DropLink() || any;
}

bool FaultySend::Waiting() {
  MutexLock lock(&mu_);
  return !acks_.empty() || drop_due_;
}

void FaultySend::Abort(const absl::Status& /*status*/) {
  MutexLock lock(&mu_);
  aborted_ = true;
  acks_.clear();
}

void FaultySend::Close() {
  std::shared_ptr<SendEdge> real;
  {
    MutexLock lock(&mu_);
    real = std::move(real_);
    acks_.clear();
    drop_due_ = false;
  }
  real.reset();
  callbacks_.Close();
}

}  // namespace stagecoach::transport::faulty
