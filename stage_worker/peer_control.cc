#include "stage_worker/peer_control.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/notification.h"
#include "base/status.h"
#include "rpc/channel.h"
#include "rpc/stream_writer.h"

namespace stagecoach::worker {
namespace {

using transport::ControlChannel;

// Far more than edges have transfers in flight: a peer that reads nothing.
constexpr size_t kQueueLimit = 1 << 16;
// What a channel that ends waits for its last messages to be written.
constexpr absl::Duration kFlushTime = absl::Seconds(2);

}  // namespace

// Where what peers send goes, until the channel ends. Thread-safe.
class PeerControl::Inbox {
 public:
  Inbox(ControlledPlacement placement, ControlChannel::Handlers handlers)
      : placement_(std::move(placement)), handlers_(std::move(handlers)) {}

  const ControlledPlacement& placement() const { return placement_; }

  void Deliver(const std::string& from, std::string message) {
    // Held while the handler runs, which only posts: Close() must wait for it.
    MutexLock lock(&mu_);
    if (!closed_) handlers_.on_message(from, std::move(message));
  }
  void Lost(const std::string& peer, const absl::Status& why) {
    MutexLock lock(&mu_);
    if (!closed_) handlers_.on_lost(peer, why);
  }
  void Close() {
    MutexLock lock(&mu_);
    closed_ = true;
  }

 private:
  const ControlledPlacement placement_;
  const ControlChannel::Handlers handlers_;
  Mutex mu_;
  bool closed_ SC_GUARDED_BY(mu_) = false;
};

// --- what peers send ---------------------------------------------------------

class PeerControl::IncomingStream final
    : public grpc::ServerBidiReactor<v1::ControlFrame, v1::ControlEnd> {
 public:
  explicit IncomingStream(PeerControl* control) : control_(control) {
    StartRead(&frame_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      if (inbox_ != nullptr) {
        inbox_->Lost(from_,
                     absl::UnavailableError(absl::StrCat(
                         "worker ", from_, " ended its control stream")));
      }
      return Finish(grpc::Status::OK);
    }
    if (inbox_ == nullptr) {
      auto inbox = control_->Find(frame_);
      if (!inbox.ok()) return Finish(rpc::ToGrpc(inbox.status()));
      inbox_ = *std::move(inbox);
      from_ = frame_.worker();
    } else {
      inbox_->Deliver(from_, std::move(*frame_.mutable_message()));
    }
    frame_.Clear();
    StartRead(&frame_);
  }
  void OnDone() override { delete this; }

 private:
  PeerControl* const control_;
  v1::ControlFrame frame_;
  std::shared_ptr<Inbox> inbox_;
  std::string from_;
};

// --- what goes to one peer ---------------------------------------------------

// Lives until gRPC is done with it.
class PeerControl::OutgoingStream final
    : public grpc::ClientBidiReactor<v1::ControlFrame, v1::ControlEnd> {
 public:
  static std::shared_ptr<OutgoingStream> Open(const PeerAddress& peer,
                                              std::shared_ptr<Inbox> inbox) {
    auto stream = std::shared_ptr<OutgoingStream>(
        new OutgoingStream(peer, std::move(inbox)));
    stream->self_ = stream;
    stream->stub_->async()->Control(&stream->context_, stream.get());
    // Writes come from another thread at any time, so the call is held open
    // until the reading side has seen its end.
    stream->AddHold();
    stream->StartRead(&stream->nothing_);
    stream->StartCall();
    return stream;
  }

  absl::Status Write(v1::ControlFrame frame) {
    {
      MutexLock lock(&mu_);
      if (ended_ || closing_) {
        return absl::UnavailableError("the control stream has ended");
      }
      ++users_;
    }
    absl::Status status = writer_.Write(std::move(frame));
    Leave();
    return status;
  }

  // Ends the stream behind what was written; by force if that takes too long.
  void Close() {
    {
      MutexLock lock(&mu_);
      closing_ = true;
    }
    FinishWritingIfIdle();
    if (!done_.WaitForNotificationWithTimeout(kFlushTime)) {
      context_.TryCancel();
    }
  }

  void OnReadDone(bool /*ok*/) override {
    // Nothing is ever sent this way: the stream has ended.
    writer_.Close();
    {
      MutexLock lock(&mu_);
      ended_ = true;
    }
    Leave();
  }
  void OnWriteDone(bool ok) override {
    writer_.Done(ok);
    FinishWritingIfIdle();
  }
  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<OutgoingStream> self = std::move(self_);
    done_.Notify();
    inbox_->Lost(
        peer_,
        Annotate(absl::UnavailableError(absl::StrCat(
                     "the control stream ended: ", status.error_message())),
                 absl::StrCat("worker ", peer_)));
  }

 private:
  OutgoingStream(const PeerAddress& peer, std::shared_ptr<Inbox> inbox)
      : peer_(peer.worker),
        inbox_(std::move(inbox)),
        stub_(v1::PeerService::NewStub(rpc::Connect(peer.address))),
        writer_([this](const v1::ControlFrame* frame) { StartWrite(frame); },
                kQueueLimit) {}

  // gRPC's hold on the call, without which no write may be started, is given
  // back by the last user: the reading side and calls of Write under way.
  void Leave() {
    bool last = false;
    {
      MutexLock lock(&mu_);
      last = --users_ == 0;
    }
    if (last) RemoveHold();
  }
  void FinishWritingIfIdle() {
    {
      MutexLock lock(&mu_);
      if (!closing_ || ended_ || finished_writing_ || users_ > 1) return;
      if (!writer_.Idle()) return;
      finished_writing_ = true;
      ++users_;
    }
    StartWritesDone();
    Leave();
  }

  const std::string peer_;
  const std::shared_ptr<Inbox> inbox_;
  const std::unique_ptr<v1::PeerService::Stub> stub_;
  grpc::ClientContext context_;
  rpc::StreamWriter<v1::ControlFrame> writer_;
  v1::ControlEnd nothing_;
  std::shared_ptr<OutgoingStream> self_;  // until OnDone
  Notification done_;
  Mutex mu_;
  int users_ SC_GUARDED_BY(mu_) = 1;
  bool ended_ SC_GUARDED_BY(mu_) = false;
  bool closing_ SC_GUARDED_BY(mu_) = false;
  bool finished_writing_ SC_GUARDED_BY(mu_) = false;
};

// --- the channel -------------------------------------------------------------

class PeerControl::Channel final : public ControlChannel {
 public:
  Channel(PeerControl* control, std::shared_ptr<Inbox> inbox)
      : control_(control), inbox_(std::move(inbox)) {
    control_->Publish(inbox_);
  }
  ~Channel() override {
    control_->Withdraw(inbox_.get());
    inbox_->Close();
    for (auto& [peer, stream] : streams_) stream->Close();
  }

  std::string address() const override { return inbox_->placement().worker; }

  void Send(const std::string& to, std::string message) override {
    absl::StatusOr<std::shared_ptr<OutgoingStream>> stream = StreamTo(to);
    absl::Status sent = stream.status();
    if (sent.ok()) {
      v1::ControlFrame frame;
      frame.set_message(std::move(message));
      sent = (*stream)->Write(std::move(frame));
    }
    if (!sent.ok()) inbox_->Lost(to, sent);
  }

 private:
  absl::StatusOr<std::shared_ptr<OutgoingStream>> StreamTo(
      const std::string& to) SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    const auto found = streams_.find(to);
    if (found != streams_.end()) return found->second;
    const ControlledPlacement& placement = inbox_->placement();
    for (const PeerAddress& peer : placement.peers) {
      if (peer.worker != to) continue;
      auto stream = OutgoingStream::Open(peer, inbox_);
      v1::ControlFrame first;
      first.mutable_fence()->set_epoch(placement.epoch.value());
      first.mutable_fence()->set_incarnation(peer.incarnation.value());
      first.set_job_id(placement.job_id);
      first.set_worker(placement.worker);
      SC_RETURN_IF_ERROR(stream->Write(std::move(first)));
      streams_[to] = stream;
      return stream;
    }
    return absl::UnavailableError(
        absl::StrCat("worker ", to, " has no part in this job"));
  }

  PeerControl* const control_;
  const std::shared_ptr<Inbox> inbox_;
  Mutex mu_;
  std::map<std::string, std::shared_ptr<OutgoingStream>> streams_
      SC_GUARDED_BY(mu_);
};

PeerControl::PeerControl(Incarnation incarnation) : incarnation_(incarnation) {}
PeerControl::~PeerControl() = default;

transport::ControlChannelFactory PeerControl::ChannelsOf(
    ControlledPlacement placement) {
  return [this,
          placement = std::move(placement)](ControlChannel::Handlers handlers)
             -> absl::StatusOr<std::unique_ptr<ControlChannel>> {
    return std::make_unique<Channel>(
        this, std::make_shared<Inbox>(placement, std::move(handlers)));
  };
}

grpc::ServerBidiReactor<v1::ControlFrame, v1::ControlEnd>*
PeerControl::Serve() {
  return new IncomingStream(this);  // deletes itself
}

void PeerControl::Publish(std::shared_ptr<Inbox> inbox) {
  MutexLock lock(&mu_);
  inbox_ = std::move(inbox);
}

void PeerControl::Withdraw(const Inbox* inbox) {
  MutexLock lock(&mu_);
  if (inbox_.get() == inbox) inbox_.reset();
}

absl::StatusOr<std::shared_ptr<PeerControl::Inbox>> PeerControl::Find(
    const v1::ControlFrame& first) {
  if (first.fence().incarnation() != incarnation_.value()) {
    return absl::FailedPreconditionError(
        "this is another process than the one that was placed");
  }
  const Epoch epoch(first.fence().epoch());
  MutexLock lock(&mu_);
  if (inbox_ == nullptr || inbox_->placement().job_id != first.job_id() ||
      inbox_->placement().epoch < epoch) {
    return absl::NotFoundError(absl::StrCat("job ", first.job_id(), ", epoch ",
                                            epoch.value(),
                                            " has no control channel here"));
  }
  if (inbox_->placement().epoch != epoch) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", first.job_id(), " is in a later epoch than ", epoch.value()));
  }
  return inbox_;
}

}  // namespace stagecoach::worker
