#include "transport/loopback/loopback.h"

#include <fcntl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status.h"
#include "transport/ring/edge_table.h"

namespace stagecoach::transport {
namespace {

using ring::EdgeCore;
using ring::EdgeTable;
using ring::PeerLink;
using ring::ReceiveCore;
using ring::SendCore;

// A bell of its own for every end: it may be rung after the endpoint that it
// belongs to is gone.
absl::StatusOr<std::unique_ptr<Doorbell>> ShareBell(Doorbell& bell) {
  return Doorbell::FromFd(fcntl(bell.fd(), F_DUPFD_CLOEXEC, 0));
}

class LoopbackLink final : public PeerLink {
 public:
  explicit LoopbackLink(std::weak_ptr<EdgeCore> peer)
      : peer_(std::move(peer)) {}
  void SayBye() override {
    if (const std::shared_ptr<EdgeCore> peer = peer_.lock()) {
      peer->PeerEnded(absl::AbortedError("closed by its peer"),
                      /*lost=*/false);
    }
  }

 private:
  const std::weak_ptr<EdgeCore> peer_;
};

struct Listed {
  std::shared_ptr<EdgeTable> table;
  std::shared_ptr<Doorbell> bell;
};

uint64_t RandomId() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

struct LoopbackHub::State {
  class LocalEndpoint;

  const std::string prefix = absl::StrCat("loopback/", RandomId(), "/");
  Mutex mu;
  uint64_t next_id SC_GUARDED_BY(mu) = 0;
  std::map<std::string, Listed> endpoints SC_GUARDED_BY(mu);

  absl::StatusOr<Listed> Find(absl::string_view description) {
    MutexLock lock(&mu);
    const auto found = endpoints.find(std::string(description));
    if (found != endpoints.end()) return found->second;
    return absl::UnavailableError(
        absl::StrCat("no endpoint ", description, " in this process"));
  }
};

class LoopbackHub::State::LocalEndpoint final : public Endpoint {
 public:
  LocalEndpoint(std::shared_ptr<State> hub, const EndpointOptions& options,
                std::string description, std::shared_ptr<EdgeTable> table)
      : hub_(std::move(hub)),
        bell_(options.doorbell),
        description_(std::move(description)),
        table_(std::move(table)) {}
  ~LocalEndpoint() override {
    MutexLock lock(&hub_->mu);
    hub_->endpoints.erase(description_);
  }

  absl::string_view kind() const override { return "loopback"; }
  std::string Describe() const override { return description_; }

  absl::Status IsViable(absl::string_view peer) const override {
    if (absl::StartsWith(peer, hub_->prefix)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "loopback: the peer \"", peer, "\" is not in this process (",
        hub_->prefix, "); use transport = \"shm\" or \"tcp\""));
  }

  absl::StatusOr<std::unique_ptr<ReceiveEdge>> OpenReceive(
      const EdgeOptions& options) override {
    return table_->OpenReceive(options);
  }

  absl::StatusOr<std::unique_ptr<SendEdge>> OpenSend(
      const EdgeOptions& options, absl::string_view peer,
      AckHandler on_acknowledged, absl::Duration /*timeout*/) override {
    SC_RETURN_IF_ERROR(table_->status());
    SC_RETURN_IF_ERROR(IsViable(peer));
    SC_ASSIGN_OR_RETURN(const Listed listed, hub_->Find(peer));
    SC_ASSIGN_OR_RETURN(const std::shared_ptr<ReceiveCore> receive,
                        listed.table->FindReceive(options.name));
    SC_ASSIGN_OR_RETURN(std::unique_ptr<Doorbell> peer_bell,
                        ShareBell(*listed.bell));
    SC_ASSIGN_OR_RETURN(std::unique_ptr<Doorbell> own_bell, ShareBell(*bell_));
    auto send = std::make_shared<SendCore>(
        table_->Context(options.name), receive->memory(), std::move(peer_bell),
        std::make_unique<LoopbackLink>(receive), std::move(on_acknowledged));
    SC_RETURN_IF_ERROR(receive->Attach(std::move(own_bell),
                                       std::make_unique<LoopbackLink>(send)));
    return table_->AddSend(std::move(send));
  }

  bool Progress() override { return table_->Progress(); }
  void Abort(absl::Status status) override { table_->Abort(std::move(status)); }

 private:
  const std::shared_ptr<State> hub_;
  Doorbell* const bell_;
  const std::string description_;
  const std::shared_ptr<EdgeTable> table_;
};

LoopbackHub::LoopbackHub() : state_(std::make_shared<State>()) {}
LoopbackHub::~LoopbackHub() = default;

absl::StatusOr<std::unique_ptr<Endpoint>> LoopbackHub::NewEndpoint(
    const EndpointOptions& options) {
  Listed listed;
  listed.table = std::make_shared<EdgeTable>(options);
  SC_ASSIGN_OR_RETURN(listed.bell, ShareBell(*options.doorbell));
  std::string description;
  {
    MutexLock lock(&state_->mu);
    description = absl::StrCat(state_->prefix, state_->next_id++);
    state_->endpoints[description] = listed;
  }
  return std::make_unique<State::LocalEndpoint>(
      state_, options, std::move(description), listed.table);
}

}  // namespace stagecoach::transport
