#include "transport/shm/shm.h"

#include <fcntl.h>

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "transport/ring/edge_memory.h"
#include "transport/ring/edge_table.h"
#include "transport/shm/descriptor.h"
#include "transport/shm/greeting.h"
#include "transport/shm/socket.h"
#include "transport/shm/watcher.h"

namespace stagecoach::transport {
namespace shm {
namespace {

using ring::EdgeCore;
using ring::EdgeMemory;
using ring::EdgeTable;
using ring::PeerLink;
using ring::ReceiveCore;
using ring::SendCore;

// Who connects and says nothing is cut off.
constexpr std::chrono::seconds kGreetingTime(5);

class ShmLink final : public PeerLink {
 public:
  ShmLink(std::shared_ptr<Watcher> watcher, std::shared_ptr<Socket> socket)
      : watcher_(std::move(watcher)), socket_(std::move(socket)) {}
  void SayBye() override {
    // Fails only if the peer has gone first.
    (void)socket_->Send(kBye);
    watcher_->Drop(socket_.get());
  }

 private:
  const std::shared_ptr<Watcher> watcher_;
  const std::shared_ptr<Socket> socket_;
};

// Something came on the socket of a standing edge, which can only be its end.
bool OnEdgeReadable(Socket* socket, EdgeCore* edge, RefusalCounts* refusals) {
  absl::StatusOr<Packet> packet = socket->Receive();
  // A reset that hides a goodbye queued before it is reported once.
  if (absl::IsAborted(packet.status())) packet = socket->Receive();
  if (absl::IsUnavailable(packet.status())) return true;  // nothing yet
  if (packet.ok() && packet->bytes == kBye) {
    edge->PeerEnded(absl::AbortedError("closed by its peer"), /*lost=*/false);
  } else if (!packet.ok() || packet->end) {
    edge->PeerEnded(
        absl::UnavailableError("its peer's process ended without closing it"),
        /*lost=*/true);
  } else {
    refusals->Add(Refusal::kProtocol);
    edge->PeerEnded(absl::DataLossError("its peer sent an unknown packet"),
                    /*lost=*/true);
  }
  return false;
}

// `table` counts what is turned away.
Watcher::Handler EdgeHandler(std::shared_ptr<Socket> socket,
                             std::shared_ptr<EdgeCore> edge,
                             std::shared_ptr<EdgeTable> table) {
  return [socket = std::move(socket), edge = std::move(edge),
          table = std::move(table)] {
    return OnEdgeReadable(socket.get(), edge.get(), &table->refusals());
  };
}

// What a receiver's welcome brings.
struct Greeted {
  std::shared_ptr<EdgeMemory> memory;
  std::unique_ptr<Doorbell> bell;
};

class ShmEndpoint final : public Endpoint {
 public:
  ShmEndpoint(const EndpointOptions& options, ShmDescriptor descriptor,
              std::shared_ptr<Watcher> watcher)
      : doorbell_(options.doorbell),
        epoch_(options.epoch.value()),
        descriptor_(std::move(descriptor)),
        table_(std::make_shared<EdgeTable>(options)),
        watcher_(std::move(watcher)) {}
  ~ShmEndpoint() override { watcher_->Stop(); }

  void Serve(std::shared_ptr<Socket> listener) {
    Socket* const socket = listener.get();
    watcher_->Watch(std::move(listener),
                    [this, socket] { return OnConnection(socket); });
  }

  absl::string_view kind() const override { return "shm"; }
  std::string Describe() const override {
    return FormatDescriptor(descriptor_);
  }
  absl::Status IsViable(absl::string_view peer) const override {
    return Reachable(peer).status();
  }

  absl::StatusOr<std::unique_ptr<ReceiveEdge>> OpenReceive(
      const EdgeOptions& options) override;
  absl::StatusOr<std::unique_ptr<SendEdge>> OpenSend(
      const EdgeOptions& options, absl::string_view peer,
      AckHandler on_acknowledged, absl::Duration timeout) override;

  LinkCounters counters() const override {
    LinkCounters counters;
    counters.refused_by = table_->refusals().ByReason();
    return counters;
  }
  bool Progress() override { return table_->Progress(); }
  void Abort(absl::Status status) override { table_->Abort(std::move(status)); }

 private:
  absl::StatusOr<ShmDescriptor> Reachable(absl::string_view peer) const;
  absl::Status CheckUser(const Socket& socket) const;
  absl::StatusOr<Greeted> Greet(Socket* socket, const Token& token,
                                const std::string& edge,
                                absl::Duration timeout) const;
  // Counts it, and is `status`.
  absl::Status Refuse(Refusal reason, absl::Status status) const {
    table_->refusals().Add(reason);
    return status;
  }

  // On the watcher's thread.
  bool OnConnection(Socket* listener);
  void TurnAway(Socket* listener);
  bool OnGreeting(const std::shared_ptr<Socket>& socket);
  absl::StatusOr<std::shared_ptr<ReceiveCore>> Admit(
      const std::shared_ptr<Socket>& socket, Packet packet);

  Doorbell* const doorbell_;
  const int64_t epoch_;
  const ShmDescriptor descriptor_;
  const std::shared_ptr<EdgeTable> table_;
  const std::shared_ptr<Watcher> watcher_;
  // Given up for a moment when there are no descriptors left.
  UniqueFd spare_{open("/dev/null", O_RDONLY | O_CLOEXEC)};
};

absl::StatusOr<ShmDescriptor> ShmEndpoint::Reachable(
    absl::string_view peer) const {
  SC_ASSIGN_OR_RETURN(ShmDescriptor descriptor, ParseDescriptor(peer));
  SC_RETURN_IF_ERROR(CheckReachable(descriptor_.location, descriptor.location));
  return descriptor;
}

absl::Status ShmEndpoint::CheckUser(const Socket& socket) const {
  SC_ASSIGN_OR_RETURN(const uid_t user, socket.PeerUser());
  if (user == descriptor_.location.user_id) return absl::OkStatus();
  return Refuse(Refusal::kUser,
                absl::PermissionDeniedError(absl::StrCat(
                    "shm: the other side runs as user ", user,
                    ", this worker as ", descriptor_.location.user_id)));
}

absl::StatusOr<std::unique_ptr<ReceiveEdge>> ShmEndpoint::OpenReceive(
    const EdgeOptions& options) {
  // As the sender's greeting will be checked.
  SC_RETURN_IF_ERROR(
      EncodeHello({descriptor_.token, options.name, epoch_}).status());
  return table_->OpenReceive(options);
}

absl::StatusOr<std::unique_ptr<SendEdge>> ShmEndpoint::OpenSend(
    const EdgeOptions& options, absl::string_view peer,
    AckHandler on_acknowledged, absl::Duration timeout) {
  SC_RETURN_IF_ERROR(table_->status());
  SC_ASSIGN_OR_RETURN(const ShmDescriptor descriptor, Reachable(peer));
  const auto start = std::chrono::steady_clock::now();
  SC_ASSIGN_OR_RETURN(std::shared_ptr<Socket> socket,
                      Socket::Connect(descriptor.socket_name, timeout));
  const absl::Duration left =
      timeout - absl::FromChrono(std::chrono::steady_clock::now() - start);
  SC_RETURN_IF_ERROR(CheckUser(*socket));
  SC_ASSIGN_OR_RETURN(Greeted greeted, Greet(socket.get(), descriptor.token,
                                             options.name, left));
  auto core = std::make_shared<SendCore>(
      table_->Context(options.name), std::move(greeted.memory),
      std::move(greeted.bell), std::make_unique<ShmLink>(watcher_, socket),
      std::move(on_acknowledged));
  SC_ASSIGN_OR_RETURN(std::unique_ptr<SendEdge> edge, table_->AddSend(core));
  watcher_->Watch(socket, EdgeHandler(socket, core, table_));
  return edge;
}

absl::StatusOr<Greeted> ShmEndpoint::Greet(Socket* socket, const Token& token,
                                           const std::string& edge,
                                           absl::Duration timeout) const {
  SC_ASSIGN_OR_RETURN(const std::string hello,
                      EncodeHello({token, edge, epoch_}));
  SC_RETURN_IF_ERROR(socket->Send(hello, {doorbell_->fd()}));
  absl::StatusOr<Packet> packet = socket->Receive(timeout);
  if (!packet.ok() || packet->end || packet->bytes == kBye) {
    return absl::UnavailableError(absl::StrCat(
        "edge \"", edge, "\": the peer did not let this worker in: ",
        packet.ok() ? "it closed" : packet.status().message()));
  }
  if (absl::Status answer = DecodeAnswer(packet->bytes); !answer.ok()) {
    return absl::IsDataLoss(answer) ? Refuse(Refusal::kNotOurs, answer)
                                    : answer;
  }
  if (packet->fds.size() != 2) {
    return Refuse(Refusal::kProtocol,
                  absl::DataLossError(absl::StrCat(
                      "edge \"", edge, "\": a welcome with ",
                      packet->fds.size(), " descriptors instead of 2")));
  }
  auto memory = EdgeMemory::Open(std::move(packet->fds[0]));
  if (!memory.ok()) return Refuse(Refusal::kMemory, memory.status());
  auto bell = Doorbell::FromFd(packet->fds[1].Release());
  if (!bell.ok()) return Refuse(Refusal::kMemory, bell.status());
  return Greeted{*std::move(memory), *std::move(bell)};
}

bool ShmEndpoint::OnConnection(Socket* listener) {
  absl::StatusOr<std::shared_ptr<Socket>> accepted = listener->Accept();
  if (!accepted.ok()) {
    TurnAway(listener);
    return true;
  }
  const std::shared_ptr<Socket> socket = *std::move(accepted);
  if (socket == nullptr || !CheckUser(*socket).ok()) return true;
  watcher_->Watch(
      socket, [this, socket] { return OnGreeting(socket); },
      Watcher::Clock::now() + kGreetingTime,
      [this] { table_->refusals().Add(Refusal::kSilent); });
  return true;
}

// No descriptor is left for the connection, and as long as it waits poll()
// returns at once: accept it with the spare one and close it.
void ShmEndpoint::TurnAway(Socket* listener) {
  spare_.Reset();
  (void)listener->Accept();
  spare_.Reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool ShmEndpoint::OnGreeting(const std::shared_ptr<Socket>& socket) {
  absl::StatusOr<Packet> packet = socket->Receive();
  if (absl::IsUnavailable(packet.status())) return true;  // nothing yet
  if (packet.ok() && packet->end) return false;
  absl::StatusOr<std::shared_ptr<ReceiveCore>> edge =
      packet.ok()
          ? Admit(socket, *std::move(packet))
          : Refuse(absl::IsDataLoss(packet.status()) ? Refusal::kTooLong
                                                     : Refusal::kProtocol,
                   packet.status());
  if (!edge.ok()) {
    (void)socket->Send(EncodeAnswer(edge.status()));
    return false;
  }
  // If the sender has gone meanwhile, the edge's handler sees that next.
  (void)socket->Send(EncodeAnswer(absl::OkStatus()),
                     {(*edge)->memory()->fd(), doorbell_->fd()});
  return true;
}

absl::StatusOr<std::shared_ptr<ReceiveCore>> ShmEndpoint::Admit(
    const std::shared_ptr<Socket>& socket, Packet packet) {
  const absl::StatusOr<Hello> hello = DecodeHello(packet.bytes);
  if (!hello.ok()) {
    return Refuse(absl::IsFailedPrecondition(hello.status())
                      ? Refusal::kVersion
                      : Refusal::kNotOurs,
                  hello.status());
  }
  if (hello->epoch != epoch_) {
    return Refuse(Refusal::kEpoch,
                  absl::FailedPreconditionError(absl::StrCat(
                      "shm: the greeting is of epoch ", hello->epoch,
                      ", this endpoint of epoch ", epoch_)));
  }
  if (!SameToken(hello->token, descriptor_.token)) {
    return Refuse(Refusal::kToken, absl::PermissionDeniedError(
                                       "shm: the greeting's token is wrong"));
  }
  auto found = table_->FindReceive(hello->edge);
  if (!found.ok()) return Refuse(Refusal::kUnknownEdge, found.status());
  const std::shared_ptr<ReceiveCore> edge = *std::move(found);
  if (packet.fds.size() != 1) {
    return Refuse(Refusal::kProtocol,
                  absl::InvalidArgumentError(
                      absl::StrCat("shm: a greeting with ", packet.fds.size(),
                                   " descriptors instead of 1")));
  }
  auto bell = Doorbell::FromFd(packet.fds[0].Release());
  if (!bell.ok()) return Refuse(Refusal::kMemory, bell.status());
  // Before Attach: from then on the edge may be closed on another thread, which
  // drops the socket for good.
  watcher_->Watch(socket, EdgeHandler(socket, edge, table_));
  SC_RETURN_IF_ERROR(edge->Attach(*std::move(bell),
                                  std::make_unique<ShmLink>(watcher_, socket)));
  return edge;
}

}  // namespace
}  // namespace shm

absl::StatusOr<std::unique_ptr<Endpoint>> NewShmEndpoint(
    const EndpointOptions& options) {
  SC_ASSIGN_OR_RETURN(shm::ShmDescriptor descriptor, shm::NewDescriptor());
  SC_ASSIGN_OR_RETURN(std::shared_ptr<shm::Socket> listener,
                      shm::Socket::Listen(descriptor.socket_name));
  SC_ASSIGN_OR_RETURN(std::shared_ptr<shm::Watcher> watcher,
                      shm::Watcher::Start());
  auto endpoint = std::make_unique<shm::ShmEndpoint>(
      options, std::move(descriptor), std::move(watcher));
  endpoint->Serve(std::move(listener));
  return endpoint;
}

}  // namespace stagecoach::transport
