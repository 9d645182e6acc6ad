#include "transport/tcp/inbound.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::transport::tcp {
namespace {

// A connection has few edges; who opens more is not one of ours.
constexpr uint32_t kMaxIndex = 1 << 20;
// This end gives the peer a little longer than the peer gives itself.
constexpr double kPatience = 1.5;

}  // namespace

class InboundConnection::Port final : public EdgePort {
 public:
  Port(std::shared_ptr<InboundConnection> connection, uint32_t index,
       std::weak_ptr<ReceiveCore> core)
      : connection_(std::move(connection)),
        index_(index),
        core_(std::move(core)) {}

  void Ready() override {
    const std::shared_ptr<ReceiveCore> core = core_.lock();
    if (core == nullptr) return;
    connection_->writer().MarkReady(index_, core);
    connection_->Flush();
  }
  void Release() override {}
  void Close() override {
    const std::shared_ptr<ReceiveCore> core = core_.lock();
    if (core == nullptr) return;
    connection_->Erase(index_);
    connection_->writer().Finish(index_, core.get());
    connection_->Flush();
  }

 private:
  const std::shared_ptr<InboundConnection> connection_;
  const uint32_t index_;
  const std::weak_ptr<ReceiveCore> core_;
};

InboundConnection::InboundConnection(Reactor* reactor, Counters* counters,
                                     Options options)
    : Connection(reactor, counters), options_(std::move(options)) {}

void InboundConnection::Adopt(std::unique_ptr<ByteStream> stream,
                              bool checksum) {
  // The peer knows better whether the old one still stands.
  DropStream();
  reading_.reset();
  ++counters_->connections;
  if (was_up_) ++counters_->reconnections;
  was_up_ = true;
  unresumed_.clear();
  {
    MutexLock lock(&mu_);
    for (const auto& edge : edges_) {
      unresumed_.insert(edge.first);
      edge.second->OnDisconnected();
    }
  }
  AttachStream(std::move(stream));
  reader_.RequireChecksum(checksum || options_.checksum);
  writer_.Establish(/*checksum=*/false);  // no payloads go this way
  writer_.Push(FrameType::kWelcome, 0, EncodeWelcome(options_.checksum));
  Flush();
}

void InboundConnection::OnBroken(const absl::Status& status) {
  DropStream();
  reading_.reset();
  bool empty = true;
  {
    MutexLock lock(&mu_);
    empty = edges_.empty();
    for (const auto& edge : edges_) edge.second->OnDisconnected();
  }
  if (empty || ending()) {
    if (options_.on_gone) options_.on_gone();
    return;
  }
  const auto patience =
      absl::ToChronoNanoseconds(kPatience * options_.reconnect.deadline);
  reactor_->PostAt(
      Reactor::Clock::now() + patience,
      [self = weak_from_this(), at = generation(), status] {
        const auto connection = self.lock();
        if (connection == nullptr || connection->generation() != at) return;
        connection->LoseEdges(absl::UnavailableError(absl::StrCat(
            "its connection broke and its peer did not come back: ",
            status.message())));
      });
}

void InboundConnection::LoseEdges(const absl::Status& status) {
  std::map<uint32_t, std::shared_ptr<ReceiveCore>> lost;
  {
    MutexLock lock(&mu_);
    lost.swap(edges_);
  }
  for (const auto& edge : lost) edge.second->PeerEnded(status, /*lost=*/true);
  if (options_.on_gone) options_.on_gone();
}

void InboundConnection::Erase(uint32_t index) {
  std::shared_ptr<ReceiveCore> dropped;  // outside the lock
  MutexLock lock(&mu_);
  const auto edge = edges_.find(index);
  if (edge == edges_.end()) return;
  dropped = std::move(edge->second);
  edges_.erase(edge);
}

void InboundConnection::EndEdge(uint32_t index, const absl::Status& status,
                                bool lost) {
  std::shared_ptr<ReceiveCore> core;
  {
    MutexLock lock(&mu_);
    const auto edge = edges_.find(index);
    if (edge == edges_.end()) return;
    core = edge->second;
  }
  Erase(index);
  core->PeerEnded(status, lost);
}

absl::Status InboundConnection::Misbehaved(const absl::Status& status) {
  if (!status.ok()) counters_->Refuse(Refusal::kProtocol);
  return status;
}

absl::StatusOr<std::shared_ptr<ReceiveCore>> InboundConnection::Find(
    uint32_t index) {
  MutexLock lock(&mu_);
  const auto edge = edges_.find(index);
  if (edge != edges_.end()) return edge->second;
  if (index < next_index_) return std::shared_ptr<ReceiveCore>();
  counters_->Refuse(Refusal::kUnknownEdge);
  return absl::InvalidArgumentError("tcp: a frame for an edge that never was");
}

absl::Status InboundConnection::OnFrame(const Frame& frame) {
  switch (frame.type) {
    case FrameType::kOpenEdge: {
      const absl::StatusOr<OpenEdge> open = DecodeOpenEdge(frame.body);
      if (!open.ok()) return Misbehaved(open.status());
      if (frame.edge >= kMaxIndex) {
        return Misbehaved(absl::InvalidArgumentError("tcp: too many edges"));
      }
      OnOpenEdge(frame.edge, *open);
      return absl::OkStatus();
    }
    case FrameType::kResumed:
      OnResumed();
      return absl::OkStatus();
    case FrameType::kAnnounce: {
      SC_ASSIGN_OR_RETURN(const auto core, Find(frame.edge));
      const absl::StatusOr<Announce> announce = DecodeAnnounce(frame.body);
      if (!announce.ok()) return Misbehaved(announce.status());
      return core == nullptr ? absl::OkStatus() : core->OnAnnounce(*announce);
    }
    case FrameType::kSeen: {
      SC_ASSIGN_OR_RETURN(const auto core, Find(frame.edge));
      const absl::StatusOr<uint64_t> seen = DecodeNumber(frame.body);
      if (!seen.ok()) return Misbehaved(seen.status());
      return core == nullptr ? absl::OkStatus() : core->OnSeen(*seen);
    }
    case FrameType::kCloseEdge:
      // Perhaps one that was never opened: given up before it was asked for.
      EndEdge(frame.edge, absl::AbortedError("closed by its peer"),
              /*lost=*/false);
      return absl::OkStatus();
    default:
      return Misbehaved(absl::InvalidArgumentError(
          "tcp: a frame that a sender does not send"));
  }
}

absl::StatusOr<std::vector<iovec>> InboundConnection::OnPayload(
    const Frame& frame) {
  SC_ASSIGN_OR_RETURN(reading_, Find(frame.edge));
  const absl::StatusOr<uint64_t> sequence = DecodeNumber(frame.body);
  if (!sequence.ok()) return Misbehaved(sequence.status());
  if (reading_ == nullptr) return std::vector<iovec>();
  return reading_->OnPayload(*sequence, frame.payload_bytes);
}

absl::Status InboundConnection::OnPayloadEnd(bool cancelled) {
  const std::shared_ptr<ReceiveCore> core = std::move(reading_);
  reading_.reset();
  if (core != nullptr) core->OnPayloadEnd(cancelled);
  return absl::OkStatus();
}

void InboundConnection::OnOpenEdge(uint32_t index, const OpenEdge& open) {
  absl::StatusOr<std::shared_ptr<ReceiveCore>> core = Admit(index, open);
  absl::StatusOr<EdgeOpened> opened =
      core.ok() ? (*core)->Open(open.seen) : core.status();
  if (!opened.ok()) {
    writer_.Push(FrameType::kEdgeRefused, index, EncodeStatus(opened.status()));
  } else {
    writer_.Push(FrameType::kEdgeOpened, index, Encode(*opened));
    writer_.MarkReady(index, *core);
  }
  Flush();
}

absl::StatusOr<std::shared_ptr<ReceiveCore>> InboundConnection::Admit(
    uint32_t index, const OpenEdge& open) {
  unresumed_.erase(index);
  {
    MutexLock lock(&mu_);
    next_index_ = std::max(next_index_, index + 1);
    const auto edge = edges_.find(index);
    if (edge != edges_.end()) {
      if (edge->second->name() == open.name) return edge->second;
      return absl::InvalidArgumentError(
          "tcp: two edges with one number; this is a defect of the peer");
    }
  }
  if (open.resume) return absl::AbortedError("closed by its peer");
  absl::StatusOr<std::shared_ptr<ReceiveCore>> core = options_.find(open.name);
  if (!core.ok()) {
    counters_->Refuse(Refusal::kUnknownEdge);
    return core.status();
  }
  // Before Attach: from then on the edge may be closed on another thread, which
  // takes it out again.
  {
    MutexLock lock(&mu_);
    edges_[index] = *core;
  }
  const absl::Status attached =
      (*core)->Attach(std::make_shared<Port>(shared_from_this(), index, *core));
  if (!attached.ok()) {
    Erase(index);
    return attached;
  }
  return core;
}

// What the peer did not open again, it has closed meanwhile.
void InboundConnection::OnResumed() {
  const std::set<uint32_t> closed = std::move(unresumed_);
  unresumed_.clear();
  for (const uint32_t index : closed) {
    EndEdge(index, absl::AbortedError("closed by its peer"), /*lost=*/false);
  }
}

}  // namespace stagecoach::transport::tcp
