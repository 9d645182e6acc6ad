#include "transport/tcp/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "transport/tcp/frame_reader.h"
#include "transport/tcp/socket.h"

namespace stagecoach::transport::tcp {
namespace {

// Connections that have not greeted yet; when there are more, the one that has
// been silent for longest is cut.
constexpr size_t kMaxGreeters = 256;

}  // namespace

// A connection until it has greeted.
class Listener::Greeter final : public Reactor::Handler,
                                public FrameReader::Handler,
                                public std::enable_shared_from_this<Greeter> {
 public:
  Greeter(std::weak_ptr<Listener> listener, std::unique_ptr<ByteStream> stream,
          Counters* counters)
      : listener_(std::move(listener)),
        stream_(std::move(stream)),
        reader_(counters) {}

  void Watch(Reactor* reactor) {
    reactor_ = reactor;
    watch_ = reactor->Watch(stream_->fd(), shared_from_this());
  }
  void Cut() {
    if (stream_ == nullptr) return;
    reactor_->Forget(watch_);
    stream_.reset();
  }

  void OnEvents(uint32_t events) override {
    if (stream_ == nullptr) return;
    const bool to_end = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    absl::Status status = reader_.Read(stream_.get(), this, to_end);
    if (status.ok() && !greeted_) return;
    const std::shared_ptr<Listener> listener = listener_.lock();
    if (listener == nullptr) return Cut();
    if (absl::IsUnauthenticated(status)) {
      listener->counters_->Refuse(Refusal::kNotOurs);
    }
    const std::shared_ptr<Greeter> self = shared_from_this();
    listener->Done(self);
    if (greeted_ && (status.ok() || !absl::IsUnavailable(status))) {
      Answer(listener.get(), status);
    }
    Cut();
  }

  absl::Status OnFrame(const Frame& frame) override {
    if (greeted_ || frame.type != FrameType::kHello) {
      return absl::InvalidArgumentError("tcp: this is no greeting");
    }
    SC_ASSIGN_OR_RETURN(hello_, DecodeHello(frame.body));
    greeted_ = true;
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<iovec>> OnPayload(const Frame&) override {
    return absl::InvalidArgumentError("tcp: this is no greeting");
  }
  absl::Status OnPayloadEnd(bool) override { return absl::OkStatus(); }

 private:
  void Answer(Listener* listener, absl::Status status) {
    if (status.ok() && reader_.unread() > 0) {
      status = absl::InvalidArgumentError("tcp: more than a greeting");
    }
    if (!status.ok()) {
      listener->counters_->Refuse(Refusal::kProtocol);
    } else {
      status = listener->Check(hello_);
    }
    if (status.ok()) {
      reactor_->Forget(watch_);
      listener->options_.on_greeted(hello_, std::move(stream_));
      return;
    }
    std::string frame;
    AppendFrame(FrameType::kRefused, 0, EncodeStatus(status), &frame);
    const iovec part{frame.data(), frame.size()};
    // A peer that does not take it has gone, or deserves no better.
    (void)stream_->Write(&part, 1);
    stream_->EndWriting();
  }

  const std::weak_ptr<Listener> listener_;
  std::unique_ptr<ByteStream> stream_;
  FrameReader reader_;
  Reactor* reactor_ = nullptr;
  uint64_t watch_ = 0;
  bool greeted_ = false;
  Hello hello_;
};

Listener::Listener(Reactor* reactor, Counters* counters, UniqueFd socket,
                   Options options)
    : reactor_(reactor),
      counters_(counters),
      socket_(std::move(socket)),
      options_(std::move(options)),
      spare_(open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

void Listener::Start() {
  watch_ = reactor_->Watch(socket_.get(), shared_from_this());
}

void Listener::Stop() {
  reactor_->Forget(watch_);
  for (const auto& greeter : greeters_) greeter->Cut();
  greeters_.clear();
}

void Listener::OnEvents(uint32_t /*events*/) {
  while (true) {
    absl::StatusOr<UniqueFd> socket = Accept(socket_.get());
    if (!socket.ok()) {
      TurnOneAway();
      continue;
    }
    if (!socket->valid()) return;
    absl::StatusOr<std::unique_ptr<ByteStream>> stream =
        options_.new_stream(*std::move(socket), /*dialled=*/false);
    if (!stream.ok()) continue;
    if (greeters_.size() >= kMaxGreeters) {
      counters_->Refuse(Refusal::kSilent);
      greeters_.front()->Cut();
      greeters_.pop_front();
    }
    const auto greeter = std::make_shared<Greeter>(
        weak_from_this(), *std::move(stream), counters_);
    greeters_.push_back(greeter);
    greeter->Watch(reactor_);
    reactor_->PostAt(
        Reactor::Clock::now() +
            absl::ToChronoNanoseconds(options_.greeting_time),
        [self = weak_from_this(), late = std::weak_ptr<Greeter>(greeter)] {
          const auto listener = self.lock();
          const auto silent = late.lock();
          if (listener == nullptr || silent == nullptr ||
              !listener->Done(silent)) {
            return;
          }
          listener->counters_->Refuse(Refusal::kSilent);
          silent->Cut();
        });
  }
}

// No descriptor is left for the connection, which would wait for ever: accept
// it with the spare one and close it.
void Listener::TurnOneAway() {
  spare_.Reset();
  (void)Accept(socket_.get());
  spare_.Reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool Listener::Done(const std::shared_ptr<Greeter>& greeter) {
  const auto found = std::find(greeters_.begin(), greeters_.end(), greeter);
  if (found == greeters_.end()) return false;
  greeters_.erase(found);
  return true;
}

absl::Status Listener::Check(const Hello& hello) const {
  if (hello.instance != options_.instance) {
    counters_->Refuse(Refusal::kInstance);
    return absl::FailedPreconditionError(
        "tcp: another endpoint listens here now than the one that is meant");
  }
  if (hello.epoch != options_.epoch) {
    counters_->Refuse(Refusal::kEpoch);
    return absl::FailedPreconditionError(
        absl::StrCat("tcp: the greeting is of epoch ", hello.epoch,
                     ", this endpoint of epoch ", options_.epoch));
  }
  if (!SameToken(hello.token, options_.token)) {
    counters_->Refuse(Refusal::kToken);
    return absl::PermissionDeniedError("tcp: the greeting's token is wrong");
  }
  return absl::OkStatus();
}

}  // namespace stagecoach::transport::tcp
