#include "transport/tcp/tcp.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mutex.h"
#include "base/status.h"
#include "transport/ring/edge_list.h"
#include "transport/tcp/descriptor.h"
#include "transport/tcp/inbound.h"
#include "transport/tcp/listener.h"
#include "transport/tcp/outbound.h"
#include "transport/tcp/receive_core.h"
#include "transport/tcp/send_core.h"
#include "transport/tcp/tls_stream.h"

namespace stagecoach::transport {
namespace tcp {
namespace {

// How long the end of an endpoint waits for peers to take what is on its way to
// them. They always read, so only one that hangs takes so long.
constexpr absl::Duration kEndTime = absl::Seconds(2);

class TcpEndpoint;

class SendHandle final : public SendEdge {
 public:
  SendHandle(TcpEndpoint* endpoint, std::shared_ptr<SendCore> core)
      : endpoint_(endpoint), core_(std::move(core)) {}
  ~SendHandle() override;
  void PostSend(const TransferHeader& header,
                std::vector<OutgoingTensor> tensors,
                LocalCompletion done) override {
    core_->PostSend(header, std::move(tensors), std::move(done));
  }

 private:
  TcpEndpoint* const endpoint_;
  const std::shared_ptr<SendCore> core_;
};

class ReceiveHandle final : public ReceiveEdge {
 public:
  ReceiveHandle(TcpEndpoint* endpoint, std::shared_ptr<ReceiveCore> core)
      : endpoint_(endpoint), core_(std::move(core)) {}
  ~ReceiveHandle() override;
  void PostReceive(Completion done) override {
    core_->PostReceive(std::move(done));
  }
  void Acknowledge(const TransferHeader& header) override {
    core_->Acknowledge(header);
  }
  int64_t pool_bytes() const override {
    return static_cast<int64_t>(core_->pool().arena_bytes());
  }

 private:
  TcpEndpoint* const endpoint_;
  const std::shared_ptr<ReceiveCore> core_;
};

class TcpEndpoint final : public Endpoint {
 public:
  TcpEndpoint(const EndpointOptions& options, const TcpOptions& tcp,
              Descriptor descriptor, std::unique_ptr<Reactor> reactor)
      : epoch_(options.epoch.value()),
        tcp_(tcp),
        descriptor_(std::move(descriptor)),
        list_(options),
        reactor_(std::move(reactor)) {}
  ~TcpEndpoint() override;

  void Serve(std::vector<UniqueFd> sockets);

  absl::string_view kind() const override { return "tcp"; }
  std::string Describe() const override { return Format(descriptor_); }
  absl::Status IsViable(absl::string_view peer) const override {
    return Reachable(peer).status();
  }

  absl::StatusOr<std::unique_ptr<ReceiveEdge>> OpenReceive(
      const EdgeOptions& options) override SC_EXCLUDES(mu_);
  absl::StatusOr<std::unique_ptr<SendEdge>> OpenSend(
      const EdgeOptions& options, absl::string_view peer,
      AckHandler on_acknowledged, absl::Duration timeout) override
      SC_EXCLUDES(mu_);

  LinkCounters counters() const override { return tcp_.counters->Sums(); }
  bool Progress() override {
    const tcp::FlushBatch batch;
    const bool any = reactor_->Poll();
    return list_.Progress() || any;
  }
  void Abort(absl::Status status) override { list_.Abort(std::move(status)); }

  void CloseSend(SendCore* core) {
    core->Close();
    list_.Remove(core);
  }
  void CloseReceive(ReceiveCore* core) SC_EXCLUDES(mu_);

 private:
  absl::StatusOr<Descriptor> Reachable(absl::string_view peer) const;
  absl::StatusOr<std::shared_ptr<OutboundConnection>> ConnectionTo(
      const Descriptor& peer) SC_EXCLUDES(mu_);
  absl::StatusOr<std::shared_ptr<ReceiveCore>> FindReceive(
      const std::string& name) const SC_EXCLUDES(mu_);
  // On the reactor.
  void OnGreeted(const Hello& hello, std::unique_ptr<ByteStream> stream)
      SC_EXCLUDES(mu_);
  std::vector<std::shared_ptr<Connection>> Connections() SC_EXCLUDES(mu_);
  bool EndConnections();

  const int64_t epoch_;
  const TcpOptions tcp_;
  const Descriptor descriptor_;
  ring::EdgeList list_;
  const std::unique_ptr<Reactor> reactor_;
  std::vector<std::shared_ptr<Listener>> listeners_;
  mutable Mutex mu_;
  std::map<std::string, std::shared_ptr<ReceiveCore>> receives_
      SC_GUARDED_BY(mu_);
  // By the peer's instance.
  std::map<Token, std::shared_ptr<OutboundConnection>> outbound_
      SC_GUARDED_BY(mu_);
  // By the number that the peer drew.
  std::map<uint64_t, std::shared_ptr<InboundConnection>> inbound_
      SC_GUARDED_BY(mu_);
};

SendHandle::~SendHandle() { endpoint_->CloseSend(core_.get()); }
ReceiveHandle::~ReceiveHandle() { endpoint_->CloseReceive(core_.get()); }

void TcpEndpoint::Serve(std::vector<UniqueFd> sockets) {
  Listener::Options options;
  options.instance = descriptor_.instance;
  options.token = descriptor_.token;
  options.epoch = epoch_;
  options.greeting_time = tcp_.greeting_time;
  options.new_stream = tcp_.new_stream;
  options.on_greeted = [this](const Hello& hello,
                              std::unique_ptr<ByteStream> stream) {
    OnGreeted(hello, std::move(stream));
  };
  for (UniqueFd& socket : sockets) {
    listeners_.push_back(std::make_shared<Listener>(
        reactor_.get(), tcp_.counters.get(), std::move(socket), options));
    listeners_.back()->Start();
  }
}

TcpEndpoint::~TcpEndpoint() {
  reactor_->Run([this] {
    for (const auto& listener : listeners_) listener->Stop();
  });
  const CondVar::TimePoint deadline = CondVar::DeadlineAfter(kEndTime);
  absl::Duration nap = absl::Microseconds(20);
  // A closed socket with unread bytes would cut off what the peer has not read
  // yet: so wait for its end after telling it ours.
  while (!EndConnections() && std::chrono::steady_clock::now() < deadline) {
    if (reactor_->Poll()) continue;
    std::this_thread::sleep_for(absl::ToChronoNanoseconds(nap));
    nap = std::min(2 * nap, absl::Milliseconds(5));
  }
  reactor_->Stop();
}

std::vector<std::shared_ptr<Connection>> TcpEndpoint::Connections() {
  MutexLock lock(&mu_);
  std::vector<std::shared_ptr<Connection>> connections;
  for (const auto& entry : outbound_) connections.push_back(entry.second);
  for (const auto& entry : inbound_) connections.push_back(entry.second);
  return connections;
}

// Whether all have ended.
bool TcpEndpoint::EndConnections() {
  bool all = true;
  reactor_->Run([this, &all] {
    for (const std::shared_ptr<Connection>& connection : Connections()) {
      connection->BeginEnd();
      all = all && !connection->has_stream();
    }
  });
  return all;
}

absl::StatusOr<std::unique_ptr<ReceiveEdge>> TcpEndpoint::OpenReceive(
    const EdgeOptions& options) {
  const std::string place = absl::StrCat("edge \"", options.name, "\"");
  if (options.name.empty() || options.name.size() > kMaxEdgeNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("tcp: an edge name of ", options.name.size(),
                     " bytes; it must have 1 to ", kMaxEdgeNameBytes));
  }
  absl::StatusOr<std::unique_ptr<SlotPool>> pool =
      SlotPool::Create(options.slots, options.slot_bytes);
  if (!pool.ok()) return Annotate(pool.status(), place);
  auto core = std::make_shared<ReceiveCore>(
      list_.Context(options.name), *std::move(pool), options.poison_returned,
      tcp_.counters.get());
  {
    MutexLock lock(&mu_);
    if (receives_.count(options.name) != 0) {
      return absl::AlreadyExistsError(
          absl::StrCat(place, " has a receiving end here already"));
    }
    SC_RETURN_IF_ERROR(list_.Add(core));
    receives_[options.name] = core;
  }
  return std::make_unique<ReceiveHandle>(this, std::move(core));
}

void TcpEndpoint::CloseReceive(ReceiveCore* core) {
  std::shared_ptr<ReceiveCore> dropped;  // outside the lock
  {
    // Before it is closed: nobody new finds it.
    MutexLock lock(&mu_);
    const auto receive = receives_.find(core->name());
    if (receive != receives_.end() && receive->second.get() == core) {
      dropped = std::move(receive->second);
      receives_.erase(receive);
    }
  }
  core->Close();
  list_.Remove(core);
}

absl::StatusOr<std::shared_ptr<ReceiveCore>> TcpEndpoint::FindReceive(
    const std::string& name) const {
  MutexLock lock(&mu_);
  const auto found = receives_.find(name);
  if (found != receives_.end()) return found->second;
  const std::string known =
      absl::StrJoin(receives_, ", ", [](std::string* out, const auto& receive) {
        absl::StrAppend(out, "\"", receive.first, "\"");
      });
  return absl::NotFoundError(
      absl::StrCat("the peer has no receiving end of edge \"", name,
                   "\"; it has ", known.empty() ? "none" : known));
}

absl::StatusOr<Descriptor> TcpEndpoint::Reachable(
    absl::string_view peer) const {
  SC_ASSIGN_OR_RETURN(Descriptor descriptor, ParseDescriptor(peer));
  SC_RETURN_IF_ERROR(CheckReachable(descriptor_.location, descriptor.location,
                                    IsLoopbackOnly(descriptor)));
  return descriptor;
}

absl::StatusOr<std::shared_ptr<OutboundConnection>> TcpEndpoint::ConnectionTo(
    const Descriptor& peer) {
  OutboundConnection::Options options;
  SC_ASSIGN_OR_RETURN(const Token id, DrawToken());
  std::memcpy(&options.id, id.data(), sizeof(options.id));
  options.peer = peer;
  options.epoch = epoch_;
  options.checksum =
      tcp_.checksum || peer.location.boot_id != descriptor_.location.boot_id;
  options.reconnect = tcp_.reconnect;
  options.new_stream = tcp_.new_stream;
  MutexLock lock(&mu_);
  std::shared_ptr<OutboundConnection>& connection = outbound_[peer.instance];
  if (connection == nullptr || connection->dead()) {
    connection = std::make_shared<OutboundConnection>(
        reactor_.get(), tcp_.counters.get(), options);
  }
  return connection;
}

absl::StatusOr<std::unique_ptr<SendEdge>> TcpEndpoint::OpenSend(
    const EdgeOptions& options, absl::string_view peer,
    AckHandler on_acknowledged, absl::Duration timeout) {
  SC_RETURN_IF_ERROR(list_.status());
  SC_ASSIGN_OR_RETURN(const Descriptor descriptor, Reachable(peer));
  const CondVar::TimePoint deadline = CondVar::DeadlineAfter(timeout);
  SC_ASSIGN_OR_RETURN(const std::shared_ptr<OutboundConnection> connection,
                      ConnectionTo(descriptor));
  auto core = std::make_shared<SendCore>(list_.Context(options.name),
                                         std::move(on_acknowledged),
                                         tcp_.counters.get());
  absl::Status opened = connection->Open(core, deadline);
  if (opened.ok()) opened = list_.Add(core);
  if (!opened.ok()) {
    core->Close();
    return opened;
  }
  return std::make_unique<SendHandle>(this, std::move(core));
}

void TcpEndpoint::OnGreeted(const Hello& hello,
                            std::unique_ptr<ByteStream> stream) {
  InboundConnection::Options options;
  options.find = [this](const std::string& name) { return FindReceive(name); };
  options.on_gone = [this, id = hello.connection] {
    std::shared_ptr<InboundConnection> gone;  // outside the lock
    MutexLock lock(&mu_);
    const auto found = inbound_.find(id);
    if (found == inbound_.end()) return;
    gone = std::move(found->second);
    inbound_.erase(found);
    // It is further up the stack.
    reactor_->Post([gone] {});
  };
  options.checksum = tcp_.checksum;
  options.reconnect = tcp_.reconnect;
  std::shared_ptr<InboundConnection> connection;
  {
    MutexLock lock(&mu_);
    std::shared_ptr<InboundConnection>& entry = inbound_[hello.connection];
    if (entry == nullptr) {
      entry = std::make_shared<InboundConnection>(
          reactor_.get(), tcp_.counters.get(), std::move(options));
    }
    connection = entry;
  }
  connection->Adopt(std::move(stream), hello.checksum);
}

struct Listening {
  std::vector<UniqueFd> sockets;
  std::vector<SocketAddress> addresses;
};

absl::StatusOr<Listening> ListenOn(const TcpOptions& tcp) {
  SC_ASSIGN_OR_RETURN(const SocketAddress address,
                      SocketAddress::Of(tcp.listen_host, 0));
  if (!address.IsLoopback() && tcp.tls == nullptr && !tcp.allow_plaintext) {
    return absl::PermissionDeniedError(absl::StrCat(
        "tcp: the data path would listen on ", tcp.listen_host,
        ", where anyone can reach it, without encryption; listen on 127.0.0.1 "
        "or [::1], use TLS (--tls-authority, --tls-certificate, --tls-key), "
        "or, in a closed network, give --allow-plaintext"));
  }
  Listening listening;
  SC_ASSIGN_OR_RETURN(UniqueFd socket, Listen(address));
  SC_ASSIGN_OR_RETURN(const SocketAddress bound,
                      SocketAddress::OfSocket(socket.get()));
  listening.sockets.push_back(std::move(socket));
  if (!bound.IsWildcard()) {
    listening.addresses.push_back(bound);
    return listening;
  }
  for (const SocketAddress& at : InterfaceAddresses(bound.family())) {
    listening.addresses.push_back(at.WithPort(bound.port()));
  }
  if (listening.addresses.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tcp: no interface of this machine is up for ",
                     tcp.listen_host, "; name the address to listen on"));
  }
  return listening;
}

}  // namespace
}  // namespace tcp

absl::StatusOr<std::unique_ptr<Endpoint>> NewTcpEndpoint(
    const EndpointOptions& options, const TcpOptions& tcp_options) {
  TcpOptions tcp = tcp_options;
  if (tcp.counters == nullptr) tcp.counters = std::make_shared<tcp::Counters>();
  if (tcp.new_stream == nullptr) {
    tcp.new_stream =
        tcp.tls == nullptr ? tcp::NewPlainStream : tcp::NewTlsStreams(tcp.tls);
  }
  SC_ASSIGN_OR_RETURN(tcp::Descriptor descriptor, tcp::NewDescriptor());
  SC_ASSIGN_OR_RETURN(tcp::Listening listening, tcp::ListenOn(tcp));
  descriptor.addresses = std::move(listening.addresses);
  SC_ASSIGN_OR_RETURN(std::unique_ptr<tcp::Reactor> reactor,
                      tcp::Reactor::Start(options.doorbell));
  auto endpoint = std::make_unique<tcp::TcpEndpoint>(
      options, tcp, std::move(descriptor), std::move(reactor));
  endpoint->Serve(std::move(listening.sockets));
  return endpoint;
}

}  // namespace stagecoach::transport
