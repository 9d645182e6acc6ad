#include "transport/ring/edge_core.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach::transport::ring {

absl::Status EdgeCore::Error(absl::StatusCode code,
                             absl::string_view message) const {
  return absl::Status(code, absl::StrCat("edge \"", name(), "\": ", message));
}

// Later states only; the first reason for an end stays.
void EdgeCore::TransitionLocked(State to, const absl::Status& status) {
  if (to <= state_) return;
  state_ = to;
  if (end_status_.ok()) end_status_ = status;
}

bool EdgeCore::Progress() {
  CallbackQueueUse use(&callbacks_);
  if (!use) return false;
  bool any = Drain();
  while (Work()) any = true;
  return callbacks_.RunAll() || any;
}

bool EdgeCore::Drain() {
  bool any = false;
  Doorbell* bell = nullptr;
  {
    MutexLock lock(&mu_);
    if (state_ > State::kEnding) return false;
    if (absl::Status drained = DrainLocked(&any); !drained.ok()) {
      BreakLocked(drained);
    } else if (state_ == State::kEnding) {
      TransitionLocked(State::kEnded, end_status_);
      FailOutstandingLocked();
    }
    bell = TakeRingLocked();
  }
  if (bell != nullptr) bell->Ring();
  return any;
}

void EdgeCore::BreakLocked(const absl::Status& status) {
  const absl::Status error = Error(status.code(), status.message());
  TransitionLocked(State::kEnded, error);
  if (context_.refusals != nullptr) context_.refusals->Add(Refusal::kProtocol);
  // The report first: it is the cause of what fails.
  if (!std::exchange(lost_reported_, true)) {
    callbacks_.Push([this, error](bool cancelled) {
      if (!cancelled) ReportLost(error);
    });
  }
  FailOutstandingLocked();
}

void EdgeCore::ReportLost(const absl::Status& status) {
  if (context_.on_edge_lost) context_.on_edge_lost(name(), status);
}

void EdgeCore::Abort(const absl::Status& status) {
  MutexLock lock(&mu_);
  if (state_ >= State::kEnded) return;
  TransitionLocked(State::kEnded, status);
  FailOutstandingLocked();
}

void EdgeCore::PeerEnded(absl::Status status, bool lost) {
  CallbackQueueUse use(&callbacks_);
  if (!use) return;
  status = Error(status.code(), status.message());
  {
    MutexLock lock(&mu_);
    if (state_ != State::kOpen) return;
    if (lost && std::exchange(lost_reported_, true)) return;
  }
  // Before the state changes: until then no other thread's Progress() fails the
  // operations whose cause this is.
  if (lost) ReportLost(status);
  {
    MutexLock lock(&mu_);
    TransitionLocked(State::kEnding, status);
  }
  RingOwnBell();
}

void EdgeCore::Close() {
  std::unique_ptr<PeerLink> link;
  {
    MutexLock lock(&mu_);
    if (state_ == State::kClosed) return;
    TransitionLocked(State::kClosed,
                     Error(absl::StatusCode::kCancelled, "closed here"));
    FailOutstandingLocked();
    link = std::move(link_);
  }
  if (link != nullptr) link->SayBye();
  callbacks_.Close();
}

Doorbell* EdgeCore::TakeRingLocked() {
  return std::exchange(ring_peer_, false) ? peer_bell_.get() : nullptr;
}

}  // namespace stagecoach::transport::ring
