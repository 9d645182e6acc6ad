#include "transport/two_sided/edge_end.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/notification.h"
#include "base/status.h"
#include "transport/two_sided/stuck_guard.h"

namespace stagecoach::transport::two_sided {
namespace {

// Instead of a goodbye's number: this end has never been ready.
constexpr uint64_t kGaveUp = std::numeric_limits<uint64_t>::max();

// The library notices a peer that leaves, too, and may be quicker than the
// goodbye or the end of the control channel, which know why.
constexpr absl::Duration kPeersOwnWord = absl::Milliseconds(200);

}  // namespace

void AbortGuarded(const Shared& shared, const std::string& what,
                  const std::vector<Communicator*>& communicators) {
  const Limits& limits = shared.limits;
  Carrier& carrier = *shared.carrier;
  absl::Status aborted;
  {
    StuckGuard guard(
        limits.clock, limits.abort_within,
        absl::StrCat(carrier.kind(), ": ", carrier.abort_call(), " of ", what),
        limits.on_stuck);
    aborted = carrier.Abort(communicators);
  }
  if (aborted.ok()) return;
  aborted = Annotate(
      aborted,
      absl::StrCat(carrier.kind(), ": ", what,
                   ": its buffers cannot be used again, the process must end"));
  LogError(aborted.message());
  if (limits.on_stuck) limits.on_stuck(aborted);
}

// Closing waits for the reactor, which owns the communicator.
class EdgeEnd::Link final : public ring::PeerLink {
 public:
  explicit Link(EdgeEnd* end) : end_(end) {}
  void SayBye() override {
    Notification finished;
    end_->shared_->reactor.Post([this, &finished] {
      end_->BeginClose([&finished] { finished.Notify(); });
    });
    finished.WaitForNotification();
  }

 private:
  EdgeEnd* const end_;
};

EdgeEnd::EdgeEnd(ring::EdgeContext context, std::shared_ptr<Shared> shared,
                 Way way)
    : EdgeCore(std::move(context)), shared_(std::move(shared)), way_(way) {
  link_ = std::make_unique<Link>(this);
}

absl::StatusOr<std::string> EdgeEnd::Introduce() {
  SC_ASSIGN_OR_RETURN(communicator_,
                      shared_->carrier->NewCommunicator(way_, name()));
  return communicator_->Introduce();
}

absl::Status EdgeEnd::Connect(const std::string& peers_introduction,
                              absl::Time deadline, absl::Duration within) {
  phase_ = Phase::kInitialising;
  deadline_ = deadline;
  within_ = within;
  return communicator_->Begin(peers_introduction);
}

void EdgeEnd::Send(ControlMessage message) {
  message.edge = name();
  message.connection = connection_;
  message.to_receiver = way_ == Way::kSend;
  shared_->channel->Send(peer_, EncodeControl(message));
}

void EdgeEnd::Break(const absl::Status& why) {
  if (phase_ >= Phase::kReady || !ConnectFailed(why)) {
    return shared_->on_broken(this, why);
  }
  SayGoodbye(why);
  AbortAlone();
}

void EdgeEnd::OnPeerLost(const absl::Status& why) {
  if (phase_ == Phase::kOver || peer_left_) return;
  Break(absl::UnavailableError(
      absl::StrCat("its peer is gone: ", why.message())));
}

void EdgeEnd::OnMessage(const ControlMessage& message) {
  if (phase_ == Phase::kOver) return;
  if (message.kind != ControlKind::kBye) {
    if (absl::Status status = HandleMessage(message); !status.ok()) {
      Break(status);
    }
    return;
  }
  peer_left_ = true;
  if (message.number == kGaveUp) {
    return Break(absl::UnavailableError(
        absl::StrCat("its peer gave up before their communicator was made: ",
                     message.text)));
  }
  // Otherwise the peer's end was ready already, and this one soon is.
  expected_ = std::min(expected_, message.number);
  if (phase_ >= Phase::kReady) BeginDraining();
}

Activity EdgeEnd::Step() {
  if (phase_ == Phase::kApart) CheckOpening(Now());
  if (phase_ == Phase::kApart || phase_ == Phase::kOver) {
    return Activity::kIdle;
  }
  bool any = false;
  if (phase_ == Phase::kReady || phase_ == Phase::kDraining) {
    any = StartTransfers();
  }
  const Activity activity = StepCommunicator();
  if (phase_ == Phase::kDraining && StepDraining()) any = true;
  return any ? Activity::kBusy : activity;
}

Activity EdgeEnd::StepCommunicator() {
  if (!remote_error_.ok() && phase_ == Phase::kReady) {
    // Nothing came from the peer itself.
    if (Now() >= deadline_) Fail(remote_error_);
    return Activity::kWaiting;
  }
  std::vector<uint64_t> completed;
  absl::Status status = communicator_->Step(&completed);
  for (const uint64_t sequence : completed) {
    ++completed_count_;
    OnCompleted(sequence);
  }
  if (absl::IsUnavailable(status) && phase_ == Phase::kReady) {
    remote_error_ = status;
    deadline_ = Now() + kPeersOwnWord;
    return Activity::kWaiting;
  }
  if (!status.ok()) {
    Fail(status);
    return Activity::kBusy;
  }
  const bool ready = communicator_->state() == Communicator::State::kReady;
  if (phase_ == Phase::kInitialising && ready) {
    phase_ = Phase::kReady;
    OnReady();
    // Either end may have been closed meanwhile.
    if (peer_left_ || finished_ != nullptr) BeginDraining();
    shared_->on_turn();
    return Activity::kBusy;
  }
  if (phase_ == Phase::kFinalizing &&
      communicator_->state() == Communicator::State::kGone) {
    Finish();
    return Activity::kBusy;
  }
  if (phase_ == Phase::kInitialising && Now() >= deadline_) {
    Fail(absl::UnavailableError(absl::StrCat(
        "its communicator was not made within ", absl::FormatDuration(within_),
        "; check that both hosts reach each other (",
        shared_->carrier->connect_advice(), ")")));
    return Activity::kBusy;
  }
  if (phase_ == Phase::kFinalizing && Now() >= deadline_) {
    AbortAlone();
    return Activity::kBusy;
  }
  if (!completed.empty()) return Activity::kBusy;
  const bool under_way =
      phase_ != Phase::kReady || communicator_->outstanding() > 0;
  return under_way && !shared_->carrier->wakes() ? Activity::kWaiting
                                                 : Activity::kIdle;
}

void EdgeEnd::Fail(const absl::Status& why) {
  // Of an end that leaves nobody expects more than that it goes.
  if (phase_ < Phase::kDraining && finished_ == nullptr) return Break(why);
  SayGoodbye();
  AbortAlone();
}

// True once the phase is over.
bool EdgeEnd::StepDraining() {
  const bool drained =
      completed_count_ >= expected_ || communicator_->outstanding() == 0;
  if (!(drained && (peer_left_ || MayLeave())) && Now() < deadline_) {
    return false;
  }
  SayGoodbye();
  if (peer_left_) {
    PeerEnded(absl::AbortedError("closed by its peer"), /*lost=*/false);
  }
  if (communicator_->outstanding() > 0) {
    AbortAlone();
    return true;
  }
  phase_ = Phase::kFinalizing;
  deadline_ = Now() + shared_->limits.close_within;
  if (!communicator_->Finalize().ok()) AbortAlone();
  return true;
}

void EdgeEnd::BeginDraining() {
  if (phase_ >= Phase::kDraining) return;
  phase_ = Phase::kDraining;
  deadline_ = Now() + shared_->limits.close_within;
}

void EdgeEnd::SayGoodbye(const absl::Status& why) {
  if (std::exchange(goodbye_said_, true) || peer_.empty() || peer_left_) return;
  Flush();
  ControlMessage bye;
  bye.kind = ControlKind::kBye;
  bye.number = phase_ < Phase::kReady ? kGaveUp : completed_count_;
  bye.text = std::string(why.message());
  Send(std::move(bye));
}

void EdgeEnd::BeginClose(std::function<void()> finished) {
  finished_ = std::move(finished);
  if (phase_ == Phase::kOver) return Finish();
  // A sender closes before it is ready only if opening failed.
  if (phase_ == Phase::kApart ||
      (phase_ == Phase::kInitialising && way_ == Way::kSend)) {
    SayGoodbye();
    return AbortAlone();
  }
  if (phase_ == Phase::kInitialising) {
    // The sender may be ready already, and this end soon is.
    deadline_ = std::min(deadline_, Now() + shared_->limits.close_within);
  } else {
    BeginDraining();
  }
}

void EdgeEnd::PrepareAbort(const absl::Status& why) { SayGoodbye(why); }

void EdgeEnd::AbortAlone() {
  if (communicator_ != nullptr) {
    AbortGuarded(*shared_, absl::StrCat("edge \"", name(), "\""),
                 {communicator_.get()});
  }
  Aborted();
}

void EdgeEnd::Aborted() { Finish(); }

void EdgeEnd::Finish() {
  const bool had_turn = had_its_turn();
  phase_ = Phase::kOver;
  communicator_.reset();
  if (peer_left_) {
    PeerEnded(absl::AbortedError("closed by its peer"), /*lost=*/false);
  }
  FailUnderWay();
  RingOwnBell();
  // Whoever waits for the end destroys this object as soon as it hears of it.
  const std::shared_ptr<Shared> shared = shared_;
  const std::function<void()> finished = std::exchange(finished_, nullptr);
  if (finished) finished();
  if (!had_turn) shared->on_turn();
}

}  // namespace stagecoach::transport::two_sided
