#include "transport/ring/edge_list.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace stagecoach::transport::ring {

EdgeContext EdgeList::Context(const std::string& edge) const {
  EdgeContext context;
  context.name = edge;
  context.doorbell = options_.doorbell;
  context.on_edge_lost = options_.on_edge_lost;
  context.refusals = refusals_;
  return context;
}

absl::Status EdgeList::Add(std::shared_ptr<EdgeCore> core) {
  MutexLock lock(&mu_);
  SC_RETURN_IF_ERROR(status_);
  auto edges = std::make_shared<Edges>(*edges_);
  edges->push_back(std::move(core));
  edges_ = std::move(edges);
  return absl::OkStatus();
}

void EdgeList::Remove(const EdgeCore* core) {
  MutexLock lock(&mu_);
  auto edges = std::make_shared<Edges>(*edges_);
  edges->erase(
      std::remove_if(edges->begin(), edges->end(),
                     [core](const auto& edge) { return edge.get() == core; }),
      edges->end());
  edges_ = std::move(edges);
}

std::shared_ptr<const EdgeList::Edges> EdgeList::edges() const {
  MutexLock lock(&mu_);
  return edges_;
}

absl::Status EdgeList::status() const {
  MutexLock lock(&mu_);
  return status_;
}

bool EdgeList::Progress() {
  return gate_.Run(options_.doorbell, [this] {
    bool any = false;
    const std::shared_ptr<const Edges> snapshot = edges();
    for (const std::shared_ptr<EdgeCore>& edge : *snapshot) {
      any = edge->Progress() || any;
    }
    return any;
  });
}

void EdgeList::Abort(absl::Status status) {
  if (status.ok()) status = absl::AbortedError("aborted");
  {
    MutexLock lock(&mu_);
    if (!status_.ok()) return;
    status_ = status;
  }
  for (const std::shared_ptr<EdgeCore>& edge : *edges()) edge->Abort(status);
  options_.doorbell->Ring();
}

}  // namespace stagecoach::transport::ring
