#include "stage_worker/transports.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/doorbell.h"
#include "transport/nccl/nccl.h"
#include "transport/shm/descriptor.h"
#include "transport/shm/shm.h"
#include "transport/tcp/descriptor.h"
#include "transport/tcp/tcp.h"
#include "transport/ucx/ucx.h"

namespace stagecoach::worker {
namespace {

constexpr char kLoopbackOnly[] = "loopback";

Transport Shm() {
  Transport shm;
  shm.kind = "shm";
  shm.merit = "same host";
  shm.factory = transport::NewShmEndpoint;
  shm.check = [](const PathEnd& from, const PathEnd& to) {
    return transport::shm::CheckReachable(from.location, to.location);
  };
  return shm;
}

// Fails now, and not in the first job, if the address cannot be listened on.
absl::StatusOr<bool> IsLoopbackOnly(const transport::TcpOptions& options) {
  SC_ASSIGN_OR_RETURN(const std::unique_ptr<transport::Doorbell> bell,
                      transport::Doorbell::Create());
  transport::EndpointOptions endpoint;
  endpoint.doorbell = bell.get();
  SC_ASSIGN_OR_RETURN(const std::unique_ptr<transport::Endpoint> probe,
                      transport::NewTcpEndpoint(endpoint, options));
  SC_ASSIGN_OR_RETURN(const transport::tcp::Descriptor descriptor,
                      transport::tcp::ParseDescriptor(probe->Describe()));
  return transport::tcp::IsLoopbackOnly(descriptor);
}

absl::StatusOr<Transport> Tcp(const TransportSettings& settings) {
  transport::TcpOptions options;
  options.listen_host = settings.data_host;
  options.allow_plaintext = settings.allow_plaintext;
  options.tls = settings.tls;
  options.checksum = settings.tcp_checksum;
  SC_ASSIGN_OR_RETURN(const bool loopback_only, IsLoopbackOnly(options));
  if (!loopback_only && settings.tls == nullptr) {
    LogWarning(absl::StrCat(
        "the data path will listen on ", settings.data_host,
        " without encryption (--allow-plaintext): who reads the network can "
        "read and change tensors"));
  }
  Transport tcp;
  tcp.kind = "tcp";
  tcp.merit = "over the network";
  tcp.detail = loopback_only ? kLoopbackOnly : "";
  tcp.factory = [options](const transport::EndpointOptions& endpoint) {
    return transport::NewTcpEndpoint(endpoint, options);
  };
  tcp.check = [](const PathEnd& from, const PathEnd& to) {
    return transport::tcp::CheckReachable(from.location, to.location,
                                          to.detail == kLoopbackOnly);
  };
  return tcp;
}

bool IsAskedFor(const transport::nccl::NcclSettings& nccl) {
  const transport::nccl::NcclSettings defaults;
  return !nccl.engine_on_host || nccl.nccl_library != defaults.nccl_library ||
         nccl.cuda_runtime_library != defaults.cuda_runtime_library;
}

Transport Nccl(const transport::nccl::NcclSettings& settings,
               bool allow_plaintext) {
  Transport nccl;
  nccl.kind = "nccl";
  nccl.merit = "GPU to GPU";
  nccl.factory = [settings](const transport::EndpointOptions& endpoint) {
    return transport::NewNcclEndpoint(endpoint, settings);
  };
  if (!IsAskedFor(settings)) {
    nccl.only_if_asked = true;
    nccl.obstacle =
        "this worker computes on the CPU; start it with --device cuda:N";
  } else if (auto detail = transport::DescribeNccl(settings); detail.ok()) {
    nccl.detail = *std::move(detail);
  } else {
    nccl.obstacle = std::string(detail.status().message());
  }
  nccl.check = [share_gpu = settings.share_gpu, allow_plaintext](
                   const PathEnd& from, const PathEnd& to) -> absl::Status {
    if (!allow_plaintext && from.location.boot_id != to.location.boot_id) {
      return absl::FailedPreconditionError(
          "nccl: the peer is on another machine and NCCL does not encrypt; in "
          "a closed network, start both with --allow-plaintext");
    }
    return transport::CheckNcclPair(from.detail, to.detail, share_gpu);
  };
  return nccl;
}

// Why this worker has no use for UCX, before its library is looked at.
std::string ObstacleToUcx(const TransportSettings& settings) {
  if (!settings.ucx.has_value()) {
    return "this worker was not told to use it; start it with --ucx-library "
           "libucp.so.0";
  }
  if (!settings.nccl.engine_on_host) {
    return "its buffers are in ordinary memory, and this worker computes on a "
           "GPU";
  }
  // A worker has one control channel.
  if (IsAskedFor(settings.nccl)) return "this worker uses NCCL";
  return "";
}

Transport Ucx(const TransportSettings& settings) {
  Transport ucx;
  ucx.kind = "ucx";
  ucx.merit = "both workers were told to use it";
  ucx.check = [](const PathEnd& from, const PathEnd& to) {
    return transport::CheckUcxPair(from.detail, to.detail);
  };
  ucx.only_if_asked = !settings.ucx.has_value();
  ucx.obstacle = ObstacleToUcx(settings);
  if (!ucx.obstacle.empty()) return ucx;
  ucx.factory =
      [own = *settings.ucx](const transport::EndpointOptions& endpoint) {
        return transport::NewUcxEndpoint(endpoint, own);
      };
  if (auto detail = transport::DescribeUcx(*settings.ucx); detail.ok()) {
    ucx.detail = *std::move(detail);
  } else {
    ucx.obstacle = std::string(detail.status().message());
  }
  return ucx;
}

}  // namespace

absl::StatusOr<std::vector<Transport>> BuiltInTransports(
    const TransportSettings& settings) {
  SC_ASSIGN_OR_RETURN(Transport tcp, Tcp(settings));
  return std::vector<Transport>{Nccl(settings.nccl, settings.allow_plaintext),
                                Shm(), Ucx(settings), std::move(tcp)};
}

}  // namespace stagecoach::worker
