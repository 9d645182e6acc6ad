#include "transport/nccl/nccl.h"

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "transport/nccl/communicator.h"
#include "transport/nccl/descriptor.h"
#include "transport/nccl/device.h"
#include "transport/nccl/libraries.h"
#include "transport/two_sided/endpoint.h"

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

class NcclCarrier final : public two_sided::Carrier {
 public:
  NcclCarrier(NcclSettings settings, std::shared_ptr<const Device> device)
      : settings_(std::move(settings)), device_(std::move(device)) {}

  absl::string_view kind() const override { return "nccl"; }
  absl::string_view abort_call() const override { return "ncclCommAbort"; }
  absl::string_view connect_advice() const override {
    return "NCCL_SOCKET_IFNAME chooses the network, NCCL_DEBUG=INFO in the "
           "worker's environment says more";
  }
  absl::Status Prepare() override { return device_->Use(); }

  absl::StatusOr<std::shared_ptr<two_sided::PoolMemory>> AllocatePool(
      size_t bytes) override {
    SC_ASSIGN_OR_RETURN(
        std::shared_ptr<DeviceMemory> pool,
        DeviceMemory::Allocate(device_, bytes, settings_.registered_buffers));
    if (settings_.engine_on_host) {
      SC_RETURN_IF_ERROR(CheckHostCanRead(*pool));
    }
    return std::shared_ptr<two_sided::PoolMemory>(std::move(pool));
  }
  absl::StatusOr<std::shared_ptr<const two_sided::Mark>> MarkWork() override {
    void* const stream =
        settings_.compute_stream ? settings_.compute_stream() : nullptr;
    if (stream == nullptr) return nullptr;
    SC_ASSIGN_OR_RETURN(std::unique_ptr<DeviceEvent> event,
                        DeviceEvent::Create(device_));
    SC_RETURN_IF_ERROR(event->Record(static_cast<cudaStream_t>(stream)));
    return std::shared_ptr<const two_sided::Mark>(std::move(event));
  }
  absl::StatusOr<std::unique_ptr<two_sided::Communicator>> NewCommunicator(
      two_sided::Way way, const std::string& name) override {
    return Communicator::Create(device_, way, name);
  }
  absl::Status Abort(
      const std::vector<two_sided::Communicator*>& communicators) override {
    return Communicator::Abort(communicators);
  }

 private:
  const NcclSettings settings_;
  const std::shared_ptr<const Device> device_;
};

}  // namespace
}  // namespace nccl

absl::StatusOr<std::unique_ptr<Endpoint>> NewNcclEndpoint(
    const EndpointOptions& options, const nccl::NcclSettings& settings) {
  SC_ASSIGN_OR_RETURN(std::shared_ptr<const nccl::Device> device,
                      nccl::OpenDevice(settings));
  const nccl::NcclDescriptor here = nccl::DescriptorOf(*device);
  two_sided::Descriptions descriptions;
  descriptions.describe = [here](const std::string& address) {
    nccl::NcclDescriptor descriptor = here;
    descriptor.address = address;
    return nccl::FormatDescriptor(descriptor);
  };
  descriptions.reach =
      [here, share_gpu = settings.share_gpu](
          absl::string_view peer) -> absl::StatusOr<std::string> {
    SC_ASSIGN_OR_RETURN(const nccl::NcclDescriptor descriptor,
                        nccl::ParseDescriptor(peer));
    SC_RETURN_IF_ERROR(nccl::CheckPair(here, descriptor, share_gpu));
    return descriptor.address;
  };
  return two_sided::NewEndpoint(
      options, std::make_shared<nccl::NcclCarrier>(settings, std::move(device)),
      settings, std::move(descriptions));
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
