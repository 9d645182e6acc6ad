#include "transport/testing/harness.h"

#include <utility>

#include "absl/time/clock.h"

namespace stagecoach::transport::testing {

void LostEdges::Add(const std::string& edge, const absl::Status& status) {
  MutexLock lock(&mu_);
  lost_.push_back(Lost{edge, status});
}

std::vector<Lost> LostEdges::all() const {
  MutexLock lock(&mu_);
  return lost_;
}

EndpointOptions OptionsFor(Doorbell* bell, LostEdges* lost) {
  EndpointOptions options;
  options.doorbell = bell;
  options.on_edge_lost = [lost](const std::string& edge, absl::Status status) {
    lost->Add(edge, status);
  };
  return options;
}

EdgeOptions EdgeNamed(const std::string& name) {
  EdgeOptions options;
  options.name = name;
  return options;
}

EdgeOptions PoolNamed(const std::string& name, int slots, size_t slot_bytes) {
  EdgeOptions options;
  options.name = name;
  options.slots = slots;
  options.slot_bytes = slot_bytes;
  return options;
}

TransferHeader HeaderOf(int microbatch) {
  TransferHeader header;
  header.epoch = Epoch(7);
  header.step = StepIndex(37);
  header.microbatch = MicrobatchIndex(microbatch);
  header.stage = StageIndex(2);
  return header;
}

SendEdge::LocalCompletion Into(Outcome* outcome) {
  return [outcome](absl::Status status) {
    ++outcome->calls;
    outcome->status = std::move(status);
  };
}

ReceiveEdge::Completion IntoReceive(Outcome* outcome) {
  return [outcome](absl::StatusOr<ReceivedTransfer> transfer) {
    ++outcome->calls;
    outcome->status = transfer.status();
    if (transfer.ok()) outcome->transfer = *std::move(transfer);
  };
}

OutgoingTensor TensorOver(const std::vector<int64_t>& values) {
  OutgoingTensor tensor;
  tensor.descriptor.dtype = DType::kInt64;
  tensor.descriptor.shape = {static_cast<int64_t>(values.size())};
  tensor.data = values.data();
  return tensor;
}

std::vector<int64_t> ValuesOf(const ReceivedTransfer& transfer) {
  std::vector<int64_t> values;
  for (const IncomingTensor& tensor : transfer.tensors) {
    const auto* data = static_cast<const int64_t*>(tensor.data);
    values.insert(values.end(), data, data + tensor.descriptor.elements());
  }
  return values;
}

bool Until(Doorbell* bell, const std::vector<Endpoint*>& endpoints,
           const std::function<bool()>& done) {
  const absl::Time deadline = absl::Now() + kTestDeadline;
  while (true) {
    const uint32_t seen = bell->Count();
    bool any = false;
    for (Endpoint* endpoint : endpoints) any = endpoint->Progress() || any;
    if (done()) return true;
    if (absl::Now() >= deadline) return false;
    if (!any) bell->Wait(seen, deadline - absl::Now());
  }
}

ProgressThread::ProgressThread(Endpoint* endpoint, Doorbell* bell)
    : bell_(bell), thread_([this, endpoint] {
        while (!stop_.load()) {
          const uint32_t seen = bell_->Count();
          if (!endpoint->Progress() && !stop_.load()) {
            bell_->Wait(seen, kTestDeadline);
          }
        }
      }) {}

ProgressThread::~ProgressThread() {
  stop_.store(true);
  bell_->Ring();
  thread_.join();
}

}  // namespace stagecoach::transport::testing
