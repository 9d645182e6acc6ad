#include "transport/testing/faulty_endpoint.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "transport/progress_gate.h"
#include "transport/testing/faulty_edges.h"

namespace stagecoach::transport {
namespace {

using faulty::FaultyCore;
using faulty::FaultyReceive;
using faulty::FaultySend;

// The wrapped edges of an endpoint. Thread-safe.
class FaultyTable {
 public:
  void Add(std::shared_ptr<FaultyCore> core) {
    MutexLock lock(&mu_);
    cores_.push_back(std::move(core));
  }
  void Remove(const FaultyCore* core) {
    MutexLock lock(&mu_);
    cores_.erase(
        std::remove_if(cores_.begin(), cores_.end(),
                       [core](const auto& each) { return each.get() == core; }),
        cores_.end());
  }
  std::vector<std::shared_ptr<FaultyCore>> cores() {
    MutexLock lock(&mu_);
    return cores_;
  }

 private:
  Mutex mu_;
  std::vector<std::shared_ptr<FaultyCore>> cores_ SC_GUARDED_BY(mu_);
};

class FaultySendEdge final : public SendEdge {
 public:
  FaultySendEdge(std::shared_ptr<FaultyTable> table,
                 std::shared_ptr<FaultySend> core)
      : table_(std::move(table)), core_(std::move(core)) {
    table_->Add(core_);
  }
  ~FaultySendEdge() override {
    core_->Close();
    table_->Remove(core_.get());
  }
  void PostSend(const TransferHeader& header,
                std::vector<OutgoingTensor> tensors,
                LocalCompletion done) override {
    FaultySend::Post(core_, header, std::move(tensors), std::move(done));
  }

 private:
  const std::shared_ptr<FaultyTable> table_;
  const std::shared_ptr<FaultySend> core_;
};

class FaultyReceiveEdge final : public ReceiveEdge {
 public:
  FaultyReceiveEdge(std::shared_ptr<FaultyTable> table, const FaultPlan& plan,
                    std::unique_ptr<ReceiveEdge> real)
      : table_(std::move(table)),
        core_(std::make_shared<FaultyReceive>(plan)),
        real_(std::move(real)) {
    table_->Add(core_);
  }
  ~FaultyReceiveEdge() override {
    real_.reset();
    core_->Close();
    table_->Remove(core_.get());
  }
  void PostReceive(Completion done) override {
    real_->PostReceive(FaultyReceive::Wrap(core_, std::move(done)));
  }
  void Acknowledge(const TransferHeader& header) override {
    real_->Acknowledge(header);
  }
  int64_t pool_bytes() const override { return real_->pool_bytes(); }

 private:
  const std::shared_ptr<FaultyTable> table_;
  const std::shared_ptr<FaultyReceive> core_;
  std::unique_ptr<ReceiveEdge> real_;
};

class FaultyEndpoint final : public Endpoint {
 public:
  FaultyEndpoint(std::unique_ptr<Endpoint> real, const EndpointOptions& options,
                 const FaultPlan& plan)
      : options_(options), plan_(plan), real_(std::move(real)) {}

  absl::string_view kind() const override { return real_->kind(); }
  std::string Describe() const override { return real_->Describe(); }
  absl::Status IsViable(absl::string_view peer) const override {
    return real_->IsViable(peer);
  }

  absl::StatusOr<std::unique_ptr<ReceiveEdge>> OpenReceive(
      const EdgeOptions& options) override {
    SC_ASSIGN_OR_RETURN(std::unique_ptr<ReceiveEdge> real,
                        real_->OpenReceive(options));
    return std::make_unique<FaultyReceiveEdge>(table_, plan_, std::move(real));
  }

  absl::StatusOr<std::unique_ptr<SendEdge>> OpenSend(
      const EdgeOptions& options, absl::string_view peer,
      AckHandler on_acknowledged, absl::Duration timeout) override {
    auto core = std::make_shared<FaultySend>(plan_, options_, options.name,
                                             std::move(on_acknowledged));
    SC_ASSIGN_OR_RETURN(std::unique_ptr<SendEdge> real,
                        real_->OpenSend(
                            options, peer,
                            [core](const TransferHeader& header) {
                              core->OnAcknowledged(header);
                            },
                            timeout));
    core->Attach(std::move(real));
    return std::make_unique<FaultySendEdge>(table_, std::move(core));
  }

  LinkCounters counters() const override { return real_->counters(); }

  bool Progress() override {
    return gate_.Run(options_.doorbell, [this] { return Poll(); });
  }

  void Abort(absl::Status status) override {
    if (status.ok()) status = absl::AbortedError("aborted");
    for (const auto& core : table_->cores()) core->Abort(status);
    real_->Abort(status);
  }

 private:
  bool Poll() {
    const std::vector<std::shared_ptr<FaultyCore>> cores = table_->cores();
    for (const auto& core : cores) core->BeginPoll();
    bool any = real_->Progress();
    bool waiting = false;
    for (const auto& core : cores) {
      any = core->EndPoll() || any;
      waiting = core->Waiting() || waiting;
    }
    // A delay is counted in polls, so there must be further ones.
    if (waiting) options_.doorbell->Ring();
    return any;
  }

  const EndpointOptions options_;
  const FaultPlan plan_;
  const std::shared_ptr<FaultyTable> table_ = std::make_shared<FaultyTable>();
  ProgressGate gate_;
  const std::unique_ptr<Endpoint> real_;
};

}  // namespace

std::unique_ptr<Endpoint> MakeFaultyEndpoint(std::unique_ptr<Endpoint> real,
                                             const EndpointOptions& options,
                                             const FaultPlan& plan) {
  return std::make_unique<FaultyEndpoint>(std::move(real), options, plan);
}

}  // namespace stagecoach::transport
