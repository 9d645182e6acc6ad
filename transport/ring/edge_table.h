#ifndef STAGECOACH_TRANSPORT_RING_EDGE_TABLE_H_
#define STAGECOACH_TRANSPORT_RING_EDGE_TABLE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "transport/progress_gate.h"
#include "transport/ring/edge_core.h"
#include "transport/ring/receive_core.h"
#include "transport/ring/send_core.h"
#include "transport/transport.h"

namespace stagecoach::transport::ring {

// The edges of one endpoint, and what an endpoint does to all of them. How the
// two ends of an edge find each other is the endpoint's own business.
// Thread-safe. Held by the endpoint and by the edge objects it gave out.
class EdgeTable : public std::enable_shared_from_this<EdgeTable> {
 public:
  explicit EdgeTable(const EndpointOptions& options) : options_(options) {}

  // As Endpoint. kAlreadyExists if the name is taken.
  absl::StatusOr<std::unique_ptr<ReceiveEdge>> OpenReceive(
      const EdgeOptions& options) SC_EXCLUDES(mu_);
  // kNotFound, with the names there are.
  absl::StatusOr<std::shared_ptr<ReceiveCore>> FindReceive(
      absl::string_view name) const SC_EXCLUDES(mu_);
  // Makes the user's object of a sending end that is connected already. Closes
  // it and fails if the endpoint was aborted meanwhile.
  absl::StatusOr<std::unique_ptr<SendEdge>> AddSend(
      std::shared_ptr<SendCore> core) SC_EXCLUDES(mu_);

  bool Progress() SC_EXCLUDES(mu_);
  void Abort(absl::Status status) SC_EXCLUDES(mu_);
  // OK until aborted.
  absl::Status status() const SC_EXCLUDES(mu_);

  EdgeContext Context(const std::string& edge) const;
  // Closes the edge and forgets it. For the edge objects.
  void Close(EdgeCore* core) SC_EXCLUDES(mu_);

 private:
  using Edges = std::vector<std::shared_ptr<EdgeCore>>;

  absl::Status AddLocked(std::shared_ptr<EdgeCore> core) SC_REQUIRES(mu_);
  std::shared_ptr<const Edges> edges() const SC_EXCLUDES(mu_);

  const EndpointOptions options_;
  ProgressGate gate_;
  mutable Mutex mu_;
  absl::Status status_ SC_GUARDED_BY(mu_);
  // Replaced, never changed: Progress() walks it without the lock.
  std::shared_ptr<const Edges> edges_ SC_GUARDED_BY(mu_) =
      std::make_shared<const Edges>();
  std::map<std::string, std::shared_ptr<ReceiveCore>, std::less<>> receives_
      SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::transport::ring

#endif  // STAGECOACH_TRANSPORT_RING_EDGE_TABLE_H_
