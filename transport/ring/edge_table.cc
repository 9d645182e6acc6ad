#include "transport/ring/edge_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace stagecoach::transport::ring {
namespace {

class SendHandle final : public SendEdge {
 public:
  SendHandle(std::shared_ptr<EdgeTable> table, std::shared_ptr<SendCore> core)
      : table_(std::move(table)), core_(std::move(core)) {}
  ~SendHandle() override { table_->Close(core_.get()); }

  void PostSend(const TransferHeader& header,
                std::vector<OutgoingTensor> tensors,
                LocalCompletion done) override {
    core_->PostSend(header, std::move(tensors), std::move(done));
  }

 private:
  const std::shared_ptr<EdgeTable> table_;
  const std::shared_ptr<SendCore> core_;
};

class ReceiveHandle final : public ReceiveEdge {
 public:
  ReceiveHandle(std::shared_ptr<EdgeTable> table,
                std::shared_ptr<ReceiveCore> core)
      : table_(std::move(table)), core_(std::move(core)) {}
  ~ReceiveHandle() override { table_->Close(core_.get()); }

  void PostReceive(Completion done) override {
    core_->PostReceive(std::move(done));
  }
  void Acknowledge(const TransferHeader& header) override {
    core_->Acknowledge(header);
  }
  int64_t pool_bytes() const override {
    return static_cast<int64_t>(core_->memory()->arena_bytes());
  }

 private:
  const std::shared_ptr<EdgeTable> table_;
  const std::shared_ptr<ReceiveCore> core_;
};

}  // namespace

EdgeContext EdgeTable::Context(const std::string& edge) const {
  EdgeContext context;
  context.name = edge;
  context.doorbell = options_.doorbell;
  context.on_edge_lost = options_.on_edge_lost;
  return context;
}

absl::StatusOr<std::unique_ptr<ReceiveEdge>> EdgeTable::OpenReceive(
    const EdgeOptions& options) {
  const std::string place = absl::StrCat("edge \"", options.name, "\"");
  absl::StatusOr<std::shared_ptr<EdgeMemory>> memory =
      EdgeMemory::Create(options.slots, options.slot_bytes);
  if (!memory.ok()) return Annotate(memory.status(), place);
  auto core = std::make_shared<ReceiveCore>(
      Context(options.name), *std::move(memory), options.poison_returned);
  {
    MutexLock lock(&mu_);
    if (receives_.count(options.name) != 0) {
      return absl::AlreadyExistsError(
          absl::StrCat(place, " has a receiving end here already"));
    }
    SC_RETURN_IF_ERROR(AddLocked(core));
    receives_[options.name] = core;
  }
  return std::make_unique<ReceiveHandle>(shared_from_this(), std::move(core));
}

absl::StatusOr<std::shared_ptr<ReceiveCore>> EdgeTable::FindReceive(
    absl::string_view name) const {
  MutexLock lock(&mu_);
  const auto found = receives_.find(name);
  if (found != receives_.end()) return found->second;
  const std::string known =
      absl::StrJoin(receives_, ", ", [](std::string* out, const auto& receive) {
        absl::StrAppend(out, "\"", receive.first, "\"");
      });
  return absl::NotFoundError(
      absl::StrCat("the peer has no receiving end of edge \"", name,
                   "\"; it has ", known.empty() ? "none" : known));
}

absl::StatusOr<std::unique_ptr<SendEdge>> EdgeTable::AddSend(
    std::shared_ptr<SendCore> core) {
  absl::Status added;
  {
    MutexLock lock(&mu_);
    added = AddLocked(core);
  }
  if (!added.ok()) {
    core->Close();
    return added;
  }
  return std::make_unique<SendHandle>(shared_from_this(), std::move(core));
}

absl::Status EdgeTable::AddLocked(std::shared_ptr<EdgeCore> core) {
  SC_RETURN_IF_ERROR(status_);
  auto edges = std::make_shared<Edges>(*edges_);
  edges->push_back(std::move(core));
  edges_ = std::move(edges);
  return absl::OkStatus();
}

void EdgeTable::Close(EdgeCore* core) {
  // Outside the lock: may run callbacks.
  core->Close();
  MutexLock lock(&mu_);
  auto edges = std::make_shared<Edges>(*edges_);
  edges->erase(
      std::remove_if(edges->begin(), edges->end(),
                     [core](const auto& edge) { return edge.get() == core; }),
      edges->end());
  edges_ = std::move(edges);
  const auto receive = receives_.find(core->name());
  if (receive != receives_.end() && receive->second.get() == core) {
    receives_.erase(receive);
  }
}

std::shared_ptr<const EdgeTable::Edges> EdgeTable::edges() const {
  MutexLock lock(&mu_);
  return edges_;
}

absl::Status EdgeTable::status() const {
  MutexLock lock(&mu_);
  return status_;
}

bool EdgeTable::Progress() {
  return gate_.Run(options_.doorbell, [this] {
    bool any = false;
    const std::shared_ptr<const Edges> snapshot = edges();
    for (const std::shared_ptr<EdgeCore>& edge : *snapshot) {
      any = edge->Progress() || any;
    }
    return any;
  });
}

void EdgeTable::Abort(absl::Status status) {
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
