#ifndef STAGECOACH_STAGE_WORKER_TRANSPORTS_H_
#define STAGECOACH_STAGE_WORKER_TRANSPORTS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tls_identity.h"
#include "stage_worker/paths.h"
#include "transport/nccl/settings.h"
#include "transport/ucx/settings.h"

namespace stagecoach::worker {

struct TransportSettings {
  // Where tcp listens: a host, without a port.
  std::string data_host = "127.0.0.1";
  std::shared_ptr<const TlsIdentity> tls;  // of tcp; null: none
  bool allow_plaintext = false;
  bool tcp_checksum = false;
  // Looked at only on a CUDA device, or where a library is named: elsewhere
  // opening the libraries costs seconds for nothing.
  transport::nccl::NcclSettings nccl;
  // Only where the operator says so: loading the library starts a thread, and
  // it encrypts nothing.
  std::optional<transport::ucx::UcxSettings> ucx;
};

// The ways between workers that this program is built with, the best first.
// kPermissionDenied for a data_host that is not loopback without TLS and
// without allow_plaintext, kInvalidArgument for one that is none of this
// machine's.
absl::StatusOr<std::vector<Transport>> BuiltInTransports(
    const TransportSettings& settings);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_TRANSPORTS_H_
