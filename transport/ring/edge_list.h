#ifndef STAGECOACH_TRANSPORT_RING_EDGE_LIST_H_
#define STAGECOACH_TRANSPORT_RING_EDGE_LIST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "transport/progress_gate.h"
#include "transport/ring/edge_core.h"
#include "transport/transport.h"

namespace stagecoach::transport::ring {

// The edge ends of one endpoint, and what an endpoint does to all of them.
// Thread-safe.
class EdgeList {
 public:
  explicit EdgeList(const EndpointOptions& options) : options_(options) {}

  // The abort's status after one.
  absl::Status Add(std::shared_ptr<EdgeCore> core) SC_EXCLUDES(mu_);
  void Remove(const EdgeCore* core) SC_EXCLUDES(mu_);

  // As Endpoint.
  bool Progress() SC_EXCLUDES(mu_);
  void Abort(absl::Status status) SC_EXCLUDES(mu_);
  // OK until aborted.
  absl::Status status() const SC_EXCLUDES(mu_);

  EdgeContext Context(const std::string& edge) const;
  // Of the edges, and for what else the endpoint turns away.
  RefusalCounts& refusals() const { return *refusals_; }

 private:
  using Edges = std::vector<std::shared_ptr<EdgeCore>>;

  std::shared_ptr<const Edges> edges() const SC_EXCLUDES(mu_);

  const EndpointOptions options_;
  // The edges may outlive this.
  const std::shared_ptr<RefusalCounts> refusals_ =
      std::make_shared<RefusalCounts>();
  ProgressGate gate_;
  mutable Mutex mu_;
  absl::Status status_ SC_GUARDED_BY(mu_);
  // Replaced, never changed: Progress() walks it without the lock.
  std::shared_ptr<const Edges> edges_ SC_GUARDED_BY(mu_) =
      std::make_shared<const Edges>();
};

}  // namespace stagecoach::transport::ring

#endif  // STAGECOACH_TRANSPORT_RING_EDGE_LIST_H_
