#ifndef STAGECOACH_TRANSPORT_SHM_SHM_H_
#define STAGECOACH_TRANSPORT_SHM_SHM_H_

#include <memory>

#include "transport/transport.h"

namespace stagecoach::transport {

// Shared memory between processes on one host (Linux). The receiver owns the
// arena, a memfd passed over a unix socket of the abstract namespace, so
// nothing is left in any file system however a process ends. The socket also
// tells at once when the peer dies. Only processes of the same user are let in.
absl::StatusOr<std::unique_ptr<Endpoint>> NewShmEndpoint(
    const EndpointOptions& options);

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_SHM_SHM_H_
