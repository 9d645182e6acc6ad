#ifndef STAGECOACH_TRANSPORT_LOOPBACK_LOOPBACK_H_
#define STAGECOACH_TRANSPORT_LOOPBACK_LOOPBACK_H_

#include <memory>

#include "transport/transport.h"

namespace stagecoach::transport {

// Where loopback endpoints of one process find each other. Must outlive them.
// Thread-safe.
class LoopbackHub {
 public:
  LoopbackHub();
  ~LoopbackHub();
  absl::StatusOr<std::unique_ptr<Endpoint>> NewEndpoint(
      const EndpointOptions& options);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_LOOPBACK_LOOPBACK_H_
