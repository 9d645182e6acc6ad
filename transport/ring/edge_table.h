#ifndef STAGECOACH_TRANSPORT_RING_EDGE_TABLE_H_
#define STAGECOACH_TRANSPORT_RING_EDGE_TABLE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "transport/ring/edge_core.h"
#include "transport/ring/edge_list.h"
#include "transport/ring/receive_core.h"
#include "transport/ring/send_core.h"
#include "transport/transport.h"

namespace stagecoach::transport::ring {

// The edges of one endpoint and its receiving ends by name. How the
// two ends of an edge find each other is the endpoint's own business.
// Thread-safe. Held by the endpoint and by the edge objects it gave out.
class EdgeTable : public std::enable_shared_from_this<EdgeTable> {
 public:
  explicit EdgeTable(const EndpointOptions& options) : list_(options) {}

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

  // As EdgeList.
  bool Progress() { return list_.Progress(); }
  void Abort(absl::Status status) { list_.Abort(std::move(status)); }
  absl::Status status() const { return list_.status(); }
  EdgeContext Context(const std::string& edge) const {
    return list_.Context(edge);
  }
  RefusalCounts& refusals() const { return list_.refusals(); }
  // Closes the edge and forgets it. For the edge objects.
  void Close(EdgeCore* core) SC_EXCLUDES(mu_);

 private:
  EdgeList list_;
  mutable Mutex mu_;
  std::map<std::string, std::shared_ptr<ReceiveCore>, std::less<>> receives_
      SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::transport::ring

#endif  // STAGECOACH_TRANSPORT_RING_EDGE_TABLE_H_
