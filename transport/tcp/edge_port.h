#ifndef STAGECOACH_TRANSPORT_TCP_EDGE_PORT_H_
#define STAGECOACH_TRANSPORT_TCP_EDGE_PORT_H_

#include <memory>
#include <utility>

#include "transport/ring/edge_core.h"

namespace stagecoach::transport::tcp {

// What an end of an edge wants of its connection. Thread-safe; never called
// under the edge's lock.
class EdgePort {
 public:
  virtual ~EdgePort() = default;
  // The end has something to say.
  virtual void Ready() = 0;
  // The end has ended: its payload must not be read any more.
  virtual void Release() = 0;
  // The same, and the peer is told of a graceful end.
  virtual void Close() = 0;
};

// Passes an edge's goodbye on.
class PortLink final : public ring::PeerLink {
 public:
  explicit PortLink(std::shared_ptr<EdgePort> port) : port_(std::move(port)) {}
  void SayBye() override { port_->Close(); }

 private:
  const std::shared_ptr<EdgePort> port_;
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_EDGE_PORT_H_
