#include "transport/nccl/nccl.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "transport/nccl/descriptor.h"
#include "transport/nccl/device.h"
#include "transport/nccl/edge_registry.h"
#include "transport/nccl/libraries.h"
#include "transport/nccl/receive_end.h"
#include "transport/nccl/send_end.h"

namespace stagecoach::transport {
namespace nccl {
namespace {

absl::StatusOr<std::shared_ptr<const Device>> OpenDevice(
    const NcclSettings& settings) {
  SC_ASSIGN_OR_RETURN(
      std::shared_ptr<const Libraries> libraries,
      Libraries::Open(settings.nccl_library, settings.cuda_runtime_library));
  return Device::Open(std::move(libraries), settings.device);
}

NcclDescriptor DescriptorOf(const Device& device) {
  NcclDescriptor descriptor;
  descriptor.nccl_version = device.libraries().nccl_version;
  descriptor.host = ThisHost();
  descriptor.gpu = device.pci_address();
  return descriptor;
}

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

class NcclEndpoint final : public Endpoint {
 public:
  NcclEndpoint(const EndpointOptions& options, std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)), registry_(options, shared_) {}
  ~NcclEndpoint() override {
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
    descriptor_ = DescriptorOf(*shared_->device);
    descriptor_.address = channel_->address();
    shared_->reactor.Start([this] { UseDevice(); },
                           [this] { return registry_.Step(); });
    return absl::OkStatus();
  }

  absl::string_view kind() const override { return "nccl"; }
  std::string Describe() const override {
    return FormatDescriptor(descriptor_);
  }
  absl::Status IsViable(absl::string_view peer) const override {
    return Reachable(peer).status();
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
    SC_ASSIGN_OR_RETURN(const NcclDescriptor descriptor, Reachable(peer));
    auto end = std::make_shared<SendEnd>(registry_.Context(options.name),
                                         shared_, std::move(on_acknowledged));
    SC_RETURN_IF_ERROR(registry_.AddSend(end));
    const absl::Duration within =
        std::min(timeout, shared_->settings.initialise_within);
    Opening opening;
    shared_->reactor.Post([&] {
      end->PrepareOpening(descriptor.address, RandomConnection(), within,
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
  absl::StatusOr<NcclDescriptor> Reachable(absl::string_view peer) const {
    SC_ASSIGN_OR_RETURN(NcclDescriptor descriptor, ParseDescriptor(peer));
    SC_RETURN_IF_ERROR(
        CheckPair(descriptor_, descriptor, shared_->settings.share_gpu));
    return descriptor;
  }
  void UseDevice() {
    if (absl::Status used = shared_->device->Use(); !used.ok()) {
      registry_.Abort(used);
    }
  }

  const std::shared_ptr<Shared> shared_;
  EdgeRegistry registry_;
  std::unique_ptr<ControlChannel> channel_;
  NcclDescriptor descriptor_;
};

}  // namespace
}  // namespace nccl

absl::StatusOr<std::unique_ptr<Endpoint>> NewNcclEndpoint(
    const EndpointOptions& options, const nccl::NcclSettings& settings) {
  if (options.control_channels == nullptr) {
    return absl::FailedPreconditionError(
        "nccl: there is no control channel between these workers");
  }
  auto shared = std::make_shared<nccl::Shared>();
  shared->settings = settings;
  SC_ASSIGN_OR_RETURN(shared->device, nccl::OpenDevice(settings));
  auto endpoint =
      std::make_unique<nccl::NcclEndpoint>(options, std::move(shared));
  SC_RETURN_IF_ERROR(endpoint->Start(options.control_channels));
  return endpoint;
}

absl::StatusOr<std::string> DescribeNccl(const nccl::NcclSettings& settings) {
  SC_ASSIGN_OR_RETURN(std::shared_ptr<const nccl::Device> device,
                      nccl::OpenDevice(settings));
  nccl::NcclDescriptor descriptor = nccl::DescriptorOf(*device);
  // Its channel is made with each endpoint.
  descriptor.address = "none";
  if (settings.engine_on_host) {
    SC_ASSIGN_OR_RETURN(const auto probe,
                        nccl::DeviceMemory::Allocate(std::move(device), 64,
                                                     /*by_nccl=*/false));
    SC_RETURN_IF_ERROR(nccl::CheckHostCanRead(*probe));
  }
  return nccl::FormatDescriptor(descriptor);
}

absl::Status CheckNcclPair(absl::string_view one, absl::string_view other,
                           bool share_gpu) {
  SC_ASSIGN_OR_RETURN(const nccl::NcclDescriptor here,
                      nccl::ParseDescriptor(one));
  SC_ASSIGN_OR_RETURN(const nccl::NcclDescriptor peer,
                      nccl::ParseDescriptor(other));
  return nccl::CheckPair(here, peer, share_gpu);
}

}  // namespace stagecoach::transport
