#include "transport/two_sided/endpoint.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status.h"
#include "transport/two_sided/edge_registry.h"
#include "transport/two_sided/receive_end.h"
#include "transport/two_sided/send_end.h"

namespace stagecoach::transport::two_sided {
namespace {

uint64_t RandomConnection() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

class SendHandle final : public SendEdge {
 public:
  SendHandle(EdgeRegistry* registry, std::shared_ptr<SendEnd> end)
      : registry_(registry), end_(std::move(end)) {}
  ~SendHandle() override { registry_->Close(end_.get()); }
  void PostSend(const TransferHeader& header,
                std::vector<OutgoingTensor> tensors,
                LocalCompletion done) override {
    end_->PostSend(header, std::move(tensors), std::move(done));
  }

 private:
  EdgeRegistry* const registry_;
  const std::shared_ptr<SendEnd> end_;
};

class ReceiveHandle final : public ReceiveEdge {
 public:
  ReceiveHandle(EdgeRegistry* registry, std::shared_ptr<ReceiveEnd> end)
      : registry_(registry), end_(std::move(end)) {}
  ~ReceiveHandle() override { registry_->Close(end_.get()); }
  void PostReceive(Completion done) override {
    end_->PostReceive(std::move(done));
  }
  void Acknowledge(const TransferHeader& header) override {
    end_->Acknowledge(header);
  }
  int64_t pool_bytes() const override { return end_->pool_bytes(); }

 private:
  EdgeRegistry* const registry_;
  const std::shared_ptr<ReceiveEnd> end_;
};

// What OpenSend waits for.
class Opening {
 public:
  void Finish(absl::Status status) {
    MutexLock lock(&mu_);
    status_ = std::move(status);
    finished_ = true;
    changed_.NotifyAll();
  }
  absl::Status Wait() {
    MutexLock lock(&mu_);
    while (!finished_) changed_.Wait(&mu_);
    return status_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool finished_ SC_GUARDED_BY(mu_) = false;
  absl::Status status_ SC_GUARDED_BY(mu_);
};

class TwoSidedEndpoint final : public Endpoint {
 public:
  TwoSidedEndpoint(const EndpointOptions& options,
                   std::shared_ptr<Shared> shared, Descriptions descriptions)
      : shared_(std::move(shared)),
        descriptions_(std::move(descriptions)),
        registry_(options, shared_) {}
  ~TwoSidedEndpoint() override {
    // The reactor may be in the channel, so it ends first; what the channel
    // still brings is dropped then.
    shared_->reactor.Stop();
    channel_.reset();
  }

  absl::Status Start(const ControlChannelFactory& control) {
    ControlChannel::Handlers handlers;
    handlers.on_message = [this](const std::string& from, std::string bytes) {
      shared_->reactor.Post([this, from, bytes = std::move(bytes)] {
        registry_.OnMessage(from, bytes);
      });
    };
    handlers.on_lost = [this](const std::string& peer, absl::Status why) {
      shared_->reactor.Post(
          [this, peer, why = std::move(why)] { registry_.OnLost(peer, why); });
    };
    SC_ASSIGN_OR_RETURN(channel_, control(std::move(handlers)));
    shared_->channel = channel_.get();
    Reactor::Work work;
    work.name = std::string(shared_->carrier->kind());
    work.prepare = [this] { Prepare(); };
    work.step = [this] { return registry_.Step(); };
    work.arm = [this](std::vector<pollfd>* events) {
      return shared_->carrier->Arm(events);
    };
    return shared_->reactor.Start(std::move(work));
  }

  absl::string_view kind() const override { return shared_->carrier->kind(); }
  std::string Describe() const override {
    return descriptions_.describe(channel_->address());
  }
  absl::Status IsViable(absl::string_view peer) const override {
    return descriptions_.reach(peer).status();
  }

  absl::StatusOr<std::unique_ptr<ReceiveEdge>> OpenReceive(
      const EdgeOptions& options) override {
    SC_RETURN_IF_ERROR(registry_.status());
    absl::StatusOr<std::shared_ptr<ReceiveEnd>> end =
        ReceiveEnd::Create(registry_.Context(options.name), shared_, options);
    if (!end.ok()) {
      return Annotate(end.status(),
                      absl::StrCat("edge \"", options.name, "\""));
    }
    SC_RETURN_IF_ERROR(registry_.AddReceive(*end));
    return std::make_unique<ReceiveHandle>(&registry_, *std::move(end));
  }

  absl::StatusOr<std::unique_ptr<SendEdge>> OpenSend(
      const EdgeOptions& options, absl::string_view peer,
      AckHandler on_acknowledged, absl::Duration timeout) override {
    SC_RETURN_IF_ERROR(registry_.status());
    SC_ASSIGN_OR_RETURN(const std::string address, descriptions_.reach(peer));
    auto end = std::make_shared<SendEnd>(registry_.Context(options.name),
                                         shared_, std::move(on_acknowledged));
    SC_RETURN_IF_ERROR(registry_.AddSend(end));
    const absl::Duration within =
        std::min(timeout, shared_->limits.initialise_within);
    Opening opening;
    shared_->reactor.Post([&] {
      end->PrepareOpening(address, RandomConnection(), within,
                          [&opening](absl::Status status) {
                            opening.Finish(std::move(status));
                          });
      registry_.OpenInTurn(end);
    });
    auto handle = std::make_unique<SendHandle>(&registry_, end);
    SC_RETURN_IF_ERROR(opening.Wait());
    return handle;
  }

  LinkCounters counters() const override {
    LinkCounters counters;
    counters.refused_by = registry_.refused();
    return counters;
  }
  bool Progress() override { return registry_.Progress(); }
  void Abort(absl::Status status) override {
    registry_.Abort(std::move(status));
  }

 private:
  void Prepare() {
    if (absl::Status ready = shared_->carrier->Prepare(); !ready.ok()) {
      registry_.Abort(ready);
    }
  }

  const std::shared_ptr<Shared> shared_;
  const Descriptions descriptions_;
  EdgeRegistry registry_;
  std::unique_ptr<ControlChannel> channel_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> NewEndpoint(
    const EndpointOptions& options, std::shared_ptr<Carrier> carrier,
    const Limits& limits, Descriptions descriptions) {
  if (options.control_channels == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(carrier->kind(),
                     ": there is no control channel between these workers"));
  }
  auto shared = std::make_shared<Shared>();
  shared->limits = limits;
  shared->carrier = std::move(carrier);
  auto endpoint = std::make_unique<TwoSidedEndpoint>(options, std::move(shared),
                                                     std::move(descriptions));
  SC_RETURN_IF_ERROR(endpoint->Start(options.control_channels));
  return endpoint;
}

}  // namespace stagecoach::transport::two_sided
