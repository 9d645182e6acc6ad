#include "transport/tcp/outbound.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"

namespace stagecoach::transport::tcp {
namespace {

// For the connection to one address to stand and be greeted.
constexpr absl::Duration kAttemptTime = absl::Seconds(3);

}  // namespace

class OutboundConnection::Port final : public EdgePort {
 public:
  Port(std::shared_ptr<OutboundConnection> connection, uint32_t index,
       std::weak_ptr<SendCore> core)
      : connection_(std::move(connection)),
        index_(index),
        core_(std::move(core)) {}

  void Ready() override {
    const std::shared_ptr<SendCore> core = core_.lock();
    if (core == nullptr) return;
    connection_->writer().MarkReady(index_, core);
    connection_->Flush();
  }
  void Release() override {
    const std::shared_ptr<SendCore> core = core_.lock();
    if (core == nullptr) return;
    connection_->writer().Release(core.get());
    connection_->Flush();
  }
  void Close() override {
    const std::shared_ptr<SendCore> core = core_.lock();
    if (core == nullptr) return;
    connection_->Erase(index_);
    connection_->writer().Finish(index_, core.get());
    connection_->Flush();
  }

 private:
  const std::shared_ptr<OutboundConnection> connection_;
  const uint32_t index_;
  const std::weak_ptr<SendCore> core_;
};

OutboundConnection::OutboundConnection(Reactor* reactor, Counters* counters,
                                       const Options& options)
    : Connection(reactor, counters), options_(options) {}

// --- any thread --------------------------------------------------------------

absl::Status OutboundConnection::Open(const std::shared_ptr<SendCore>& core,
                                      CondVar::TimePoint deadline) {
  uint32_t index = 0;
  {
    MutexLock lock(&mu_);
    if (dead_) return *dead_;
    index = next_index_++;
    edges_[index].core = core;
  }
  core->Bind(std::make_shared<Port>(shared_from_this(), index, core));
  reactor_->Post([self = shared_from_this()] { self->OpenPending(); });
  absl::Status outcome = absl::UnavailableError(
      "tcp: the peer did not answer in time; is its machine reachable?");
  MutexLock lock(&mu_);
  while (true) {
    const auto edge = edges_.find(index);
    if (edge == edges_.end()) break;  // ended meanwhile
    if (edge->second.outcome) {
      outcome = *edge->second.outcome;
      break;
    }
    if (!changed_.WaitUntil(&mu_, deadline) &&
        std::chrono::steady_clock::now() >= deadline) {
      break;
    }
  }
  if (!outcome.ok()) edges_.erase(index);
  return outcome;
}

bool OutboundConnection::dead() const {
  MutexLock lock(&mu_);
  return dead_.has_value();
}

std::shared_ptr<SendCore> OutboundConnection::Find(uint32_t index) const {
  MutexLock lock(&mu_);
  const auto edge = edges_.find(index);
  return edge == edges_.end() ? nullptr : edge->second.core;
}

void OutboundConnection::Erase(uint32_t index) {
  Edge dropped;  // outside the lock
  MutexLock lock(&mu_);
  const auto edge = edges_.find(index);
  if (edge == edges_.end()) return;
  dropped = std::move(edge->second);
  edges_.erase(edge);
}

std::vector<std::shared_ptr<SendCore>> OutboundConnection::Cores() const {
  MutexLock lock(&mu_);
  std::vector<std::shared_ptr<SendCore>> cores;
  for (const auto& edge : edges_) cores.push_back(edge.second.core);
  return cores;
}

// --- getting a stream --------------------------------------------------------

void OutboundConnection::OpenPending() {
  if (state_ == State::kIdle) return Dial();
  if (state_ == State::kUp) AskForEdges();
}

void OutboundConnection::Dial() {
  next_address_ = 0;
  DialNextAddress(absl::UnavailableError("tcp: the peer has no address"));
}

void OutboundConnection::DialNextAddress(const absl::Status& last) {
  absl::Status status = last;
  while (next_address_ < options_.peer.addresses.size()) {
    const SocketAddress& address = options_.peer.addresses[next_address_++];
    absl::StatusOr<UniqueFd> fd = StartConnect(address);
    if (!fd.ok()) {
      status = fd.status();
      continue;
    }
    state_ = State::kConnecting;
    connecting_ = *std::move(fd);
    connecting_watch_ = reactor_->Watch(connecting_.get(), shared_from_this());
    After(kAttemptTime, &OutboundConnection::OnAttemptTimeout, state_);
    return;
  }
  OnAttemptFailed(status);
}

// Runs `step` unless the connection has moved on by then.
void OutboundConnection::After(absl::Duration delay,
                               void (OutboundConnection::*step)(), State in) {
  reactor_->PostAt(Clock::now() + absl::ToChronoNanoseconds(delay),
                   [self = weak_from_this(), step, in, count = ++step_] {
                     const auto connection = self.lock();
                     if (connection == nullptr || connection->step_ != count)
                       return;
                     if (connection->state_ != in || connection->ending())
                       return;
                     (connection.get()->*step)();
                   });
}

void OutboundConnection::OnAttemptTimeout() {
  OnBroken(absl::UnavailableError("tcp: the peer does not answer"));
}

void OutboundConnection::OnEvents(uint32_t events) {
  if (!connecting_.valid()) return Connection::OnEvents(events);
  if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) OnConnected();
}

void OutboundConnection::OnConnected() {
  const absl::Status connected = FinishConnect(connecting_.get());
  reactor_->Forget(connecting_watch_);
  UniqueFd fd = std::move(connecting_);
  if (!connected.ok()) return DialNextAddress(connected);
  absl::StatusOr<std::unique_ptr<ByteStream>> stream =
      options_.new_stream(std::move(fd), /*dialled=*/true);
  if (!stream.ok()) return DialNextAddress(stream.status());
  Hello hello;
  hello.token = options_.peer.token;
  hello.instance = options_.peer.instance;
  hello.connection = options_.id;
  hello.epoch = options_.epoch;
  hello.checksum = options_.checksum;
  state_ = State::kGreeting;
  After(kAttemptTime, &OutboundConnection::OnAttemptTimeout, state_);
  AttachStream(*std::move(stream));
  writer_.Push(FrameType::kHello, 0, Encode(hello));
  Flush();
}

void OutboundConnection::OnBroken(const absl::Status& status) {
  const State state = state_;
  if (connecting_.valid()) {
    reactor_->Forget(connecting_watch_);
    connecting_.Reset();
  }
  const bool unwritten = DropStream();
  const std::vector<std::shared_ptr<SendCore>> cores = Cores();
  for (const auto& core : cores) core->OnDisconnected();
  if (refusal_) return GiveUp(*refusal_);
  if (ending()) return GiveUp(status);
  if (state != State::kUp) return DialNextAddress(status);
  // Nobody needs it: the next edge gets a new one.
  if (cores.empty() && !unwritten) return GiveUp(status);
  LogWarning(absl::StrCat("tcp: the connection to ",
                          options_.peer.addresses.front().ToString(),
                          " broke (", status.message(), "); making it again"));
  if (progressed_ || attempts_ == 0) {
    attempts_ = 0;
    backoff_ = options_.reconnect.first_backoff;
    give_up_at_ =
        Clock::now() + absl::ToChronoNanoseconds(options_.reconnect.deadline);
  }
  refused_ = 0;
  progressed_ = false;
  WaitAndDial(status);
}

void OutboundConnection::OnAttemptFailed(const absl::Status& status) {
  if (!was_up_) {
    return GiveUp(absl::UnavailableError(status.message()));
  }
  refused_ = absl::IsNotFound(status) ? refused_ + 1 : 0;
  if (refused_ >= options_.reconnect.refused) {
    return GiveUp(absl::UnavailableError(
        absl::StrCat("the peer's process is gone: ", status.message())));
  }
  WaitAndDial(status);
}

void OutboundConnection::WaitAndDial(const absl::Status& status) {
  if (++attempts_ > options_.reconnect.attempts ||
      Clock::now() >= give_up_at_) {
    return GiveUp(absl::UnavailableError(
        absl::StrCat("the connection broke and could not be made again in ",
                     attempts_ - 1, " attempts: ", status.message())));
  }
  state_ = State::kWaiting;
  // The first attempt comes at once.
  const absl::Duration delay = attempts_ == 1 ? absl::ZeroDuration() : backoff_;
  if (attempts_ > 1) {
    backoff_ = std::min(2 * backoff_, options_.reconnect.last_backoff);
  }
  After(delay, &OutboundConnection::Dial, state_);
}

void OutboundConnection::GiveUp(const absl::Status& status) {
  state_ = State::kDead;
  ++step_;
  std::map<uint32_t, Edge> edges;
  {
    MutexLock lock(&mu_);
    dead_ = status;
    for (auto& [index, edge] : edges_) {
      if (edge.was_open) {
        edges[index] = edge;
      } else {
        edge.outcome = status;
      }
    }
    for (const auto& edge : edges) edges_.erase(edge.first);
    changed_.NotifyAll();
  }
  for (const auto& edge : edges) {
    edge.second.core->PeerEnded(status, /*lost=*/!ending());
  }
}

// --- frames ------------------------------------------------------------------

absl::Status OutboundConnection::Misbehaved(const absl::Status& status) {
  if (!status.ok()) counters_->Refuse(Refusal::kProtocol);
  return status;
}

absl::StatusOr<std::vector<iovec>> OutboundConnection::OnPayload(
    const Frame& /*frame*/) {
  return Misbehaved(
      absl::DataLossError("tcp: a payload from the side that receives"));
}

absl::Status OutboundConnection::OnPayloadEnd(bool /*cancelled*/) {
  return absl::OkStatus();  // never begins
}

absl::Status OutboundConnection::OnFrame(const Frame& frame) {
  if (state_ == State::kUp) return OnEdgeFrame(frame);
  if (frame.type == FrameType::kWelcome) return OnWelcome(frame);
  absl::Status refusal;
  if (frame.type == FrameType::kRefused &&
      DecodeStatus(frame.body, &refusal).ok()) {
    refusal_ = refusal;
    return refusal;
  }
  return Misbehaved(absl::DataLossError("tcp: no answer to the greeting"));
}

absl::Status OutboundConnection::OnWelcome(const Frame& frame) {
  const absl::StatusOr<bool> checksum = DecodeWelcome(frame.body);
  if (!checksum.ok()) return Misbehaved(checksum.status());
  writer_.Establish(options_.checksum || *checksum);
  state_ = State::kUp;
  ++step_;
  ++counters_->connections;
  refused_ = 0;
  if (was_up_) {
    ++counters_->reconnections;
    LogInfo(absl::StrCat("tcp: the connection to ",
                         options_.peer.addresses.front().ToString(),
                         " stands again"));
  }
  {
    MutexLock lock(&mu_);
    for (auto& edge : edges_) edge.second.asked = false;
  }
  AskForEdges();
  if (was_up_) writer_.Push(FrameType::kResumed, 0, {});
  was_up_ = true;
  Flush();
  return absl::OkStatus();
}

void OutboundConnection::AskForEdges() {
  struct Question {
    uint32_t index;
    OpenEdge open;
  };
  std::vector<Question> questions;
  {
    MutexLock lock(&mu_);
    for (auto& [index, edge] : edges_) {
      if (std::exchange(edge.asked, true)) continue;
      OpenEdge open;
      open.name = edge.core->name();
      open.seen = edge.core->seen();
      open.resume = edge.was_open;
      questions.push_back(Question{index, std::move(open)});
    }
  }
  for (const Question& question : questions) {
    writer_.Push(FrameType::kOpenEdge, question.index, Encode(question.open));
  }
  Flush();
}

absl::Status OutboundConnection::OnEdgeFrame(const Frame& frame) {
  const std::shared_ptr<SendCore> core = Find(frame.edge);
  if (core == nullptr) {
    MutexLock lock(&mu_);
    // Closed here while this was on its way.
    if (frame.edge < next_index_) return absl::OkStatus();
    counters_->Refuse(Refusal::kUnknownEdge);
    return absl::DataLossError("tcp: a frame for an edge that never was");
  }
  switch (frame.type) {
    case FrameType::kEdgeOpened:
      return OnEdgeOpened(frame, core);
    case FrameType::kEdgeRefused:
      return OnEdgeRefused(frame, core.get());
    case FrameType::kStatus: {
      const absl::StatusOr<EdgeStatus> status = DecodeEdgeStatus(frame.body);
      if (!status.ok()) return Misbehaved(status.status());
      bool advanced = false;
      SC_RETURN_IF_ERROR(Misbehaved(core->OnStatus(*status, &advanced)));
      progressed_ = progressed_ || advanced;
      writer_.MarkReady(frame.edge, core);
      Flush();
      return absl::OkStatus();
    }
    case FrameType::kCloseEdge:
      core->PeerEnded(absl::AbortedError("closed by its peer"),
                      /*lost=*/false);
      writer_.Release(core.get());
      Flush();
      Erase(frame.edge);
      return absl::OkStatus();
    default:
      return Misbehaved(
          absl::DataLossError("tcp: a frame that only a sender sends"));
  }
}

absl::Status OutboundConnection::OnEdgeOpened(
    const Frame& frame, const std::shared_ptr<SendCore>& core) {
  const absl::StatusOr<EdgeOpened> opened = DecodeEdgeOpened(frame.body);
  if (!opened.ok()) return Misbehaved(opened.status());
  SC_RETURN_IF_ERROR(Misbehaved(core->OnOpened(*opened)));
  // From here on it may be closed on another thread.
  Settle(frame.edge, absl::OkStatus());
  writer_.MarkReady(frame.edge, core);
  Flush();
  return absl::OkStatus();
}

absl::Status OutboundConnection::OnEdgeRefused(const Frame& frame,
                                               SendCore* core) {
  absl::Status refusal;
  SC_RETURN_IF_ERROR(Misbehaved(DecodeStatus(frame.body, &refusal)));
  Settle(frame.edge, refusal);
  // An edge that was open: its other end has gone meanwhile.
  core->PeerEnded(refusal, /*lost=*/!absl::IsAborted(refusal));
  return absl::OkStatus();
}

void OutboundConnection::Settle(uint32_t index, const absl::Status& outcome) {
  Edge dropped;
  MutexLock lock(&mu_);
  const auto edge = edges_.find(index);
  if (edge == edges_.end()) return;
  if (edge->second.was_open && !outcome.ok()) {
    dropped = std::move(edge->second);
    edges_.erase(edge);
    return;
  }
  edge->second.was_open = outcome.ok();
  edge->second.outcome = outcome;
  changed_.NotifyAll();
}

}  // namespace stagecoach::transport::tcp
