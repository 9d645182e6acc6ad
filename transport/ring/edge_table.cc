#include "transport/ring/edge_table.h"

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
  std::optional<WritableSlot> TakeSlot() override { return core_->TakeSlot(); }
  void ReturnSlot(const WritableSlot& slot) override {
    core_->ReturnSlot(slot);
  }
  void PostSendFromSlot(const TransferHeader& header,
                        const TensorDescriptor& tensor,
                        const WritableSlot& slot,
                        LocalCompletion done) override {
    core_->PostSendFromSlot(header, tensor, slot, std::move(done));
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
    SC_RETURN_IF_ERROR(list_.Add(core));
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
  if (absl::Status added = list_.Add(core); !added.ok()) {
    core->Close();
    return added;
  }
  return std::make_unique<SendHandle>(shared_from_this(), std::move(core));
}

void EdgeTable::Close(EdgeCore* core) {
  // Outside the lock: may run callbacks.
  core->Close();
  list_.Remove(core);
  MutexLock lock(&mu_);
  const auto receive = receives_.find(core->name());
  if (receive != receives_.end() && receive->second.get() == core) {
    receives_.erase(receive);
  }
}

}  // namespace stagecoach::transport::ring
