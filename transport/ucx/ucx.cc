#include "transport/ucx/ucx.h"

#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "transport/shared_memory.h"
#include "transport/two_sided/endpoint.h"
#include "transport/ucx/communicator.h"
#include "transport/ucx/context.h"
#include "transport/ucx/descriptor.h"

namespace stagecoach::transport {
namespace ucx {
namespace {

absl::StatusOr<UcxDescriptor> DescriptorOf(const Context& context,
                                           const UcxSettings& settings) {
  UcxDescriptor descriptor;
  descriptor.major = context.libraries().major;
  descriptor.minor = context.libraries().minor;
  SC_ASSIGN_OR_RETURN(descriptor.location, Location::Here());
  descriptor.loopback_only = settings.loopback_only;
  return descriptor;
}

// Reserved when it is made, as the pools of the other paths are.
class HostPool final : public two_sided::PoolMemory {
 public:
  explicit HostPool(std::shared_ptr<SharedMemory> memory)
      : memory_(std::move(memory)) {}
  char* data() const override { return memory_->data(); }
  size_t bytes() const override { return memory_->bytes(); }
  absl::Status Fill(size_t offset, size_t bytes, int byte) const override {
    std::memset(data() + offset, byte, bytes);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<SharedMemory> memory_;
};

class UcxCarrier final : public two_sided::Carrier {
 public:
  explicit UcxCarrier(std::shared_ptr<const Context> context)
      : context_(std::move(context)) {}

  absl::string_view kind() const override { return "ucx"; }
  absl::string_view abort_call() const override { return "ucp_worker_destroy"; }
  absl::string_view connect_advice() const override {
    return "UCX_NET_DEVICES and UCX_TLS choose the network, UCX_LOG_LEVEL=info "
           "in the worker's environment says more";
  }
  absl::StatusOr<std::shared_ptr<two_sided::PoolMemory>> AllocatePool(
      size_t bytes) override {
    SC_ASSIGN_OR_RETURN(std::shared_ptr<SharedMemory> memory,
                        SharedMemory::Create("stagecoach-ucx", bytes));
    return std::make_shared<HostPool>(std::move(memory));
  }
  absl::StatusOr<std::unique_ptr<two_sided::Communicator>> NewCommunicator(
      two_sided::Way way, const std::string& /*name*/) override {
    return Communicator::Create(context_, way, &live_);
  }
  absl::Status Abort(
      const std::vector<two_sided::Communicator*>& communicators) override {
    for (two_sided::Communicator* each : communicators) {
      static_cast<Communicator*>(each)->Abort();
    }
    return absl::OkStatus();
  }
  bool wakes() const override { return true; }
  bool Arm(std::vector<pollfd>* events) override {
    for (Communicator* each : live_) {
      if (!each->Arm(events)) return false;
    }
    return true;
  }

 private:
  const std::shared_ptr<const Context> context_;
  std::set<Communicator*> live_;
};

}  // namespace
}  // namespace ucx

absl::StatusOr<std::unique_ptr<Endpoint>> NewUcxEndpoint(
    const EndpointOptions& options, const ucx::UcxSettings& settings) {
  SC_ASSIGN_OR_RETURN(std::shared_ptr<const ucx::Context> context,
                      ucx::Context::Create(settings));
  SC_ASSIGN_OR_RETURN(const ucx::UcxDescriptor here,
                      ucx::DescriptorOf(*context, settings));
  two_sided::Descriptions descriptions;
  descriptions.describe = [here](const std::string& address) {
    ucx::UcxDescriptor descriptor = here;
    descriptor.address = address;
    return ucx::FormatDescriptor(descriptor);
  };
  descriptions.reach =
      [here](absl::string_view peer) -> absl::StatusOr<std::string> {
    SC_ASSIGN_OR_RETURN(const ucx::UcxDescriptor descriptor,
                        ucx::ParseDescriptor(peer));
    SC_RETURN_IF_ERROR(ucx::CheckPair(here, descriptor));
    return descriptor.address;
  };
  EndpointOptions in_any_order = options;
  in_any_order.opening_order.clear();
  return two_sided::NewEndpoint(
      in_any_order, std::make_shared<ucx::UcxCarrier>(std::move(context)),
      settings, std::move(descriptions));
}

absl::StatusOr<std::string> DescribeUcx(const ucx::UcxSettings& settings) {
  SC_ASSIGN_OR_RETURN(const std::shared_ptr<const ucx::Context> context,
                      ucx::Context::Create(settings));
  SC_ASSIGN_OR_RETURN(ucx::UcxDescriptor descriptor,
                      ucx::DescriptorOf(*context, settings));
  // Its channel is made with each endpoint.
  descriptor.address = "none";
  return ucx::FormatDescriptor(descriptor);
}

absl::Status CheckUcxPair(absl::string_view one, absl::string_view other) {
  SC_ASSIGN_OR_RETURN(const ucx::UcxDescriptor here, ucx::ParseDescriptor(one));
  SC_ASSIGN_OR_RETURN(const ucx::UcxDescriptor peer,
                      ucx::ParseDescriptor(other));
  return ucx::CheckPair(here, peer);
}

}  // namespace stagecoach::transport
