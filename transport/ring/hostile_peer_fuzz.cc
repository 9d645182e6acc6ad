// Fuzz target of one end of an edge whose peer writes what it likes into the
// memory that both share, whenever it likes. Whatever it does: nothing outside
// of the slots is touched, and every operation completes exactly once.

#include <fcntl.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "transport/ring/receive_core.h"
#include "transport/ring/send_core.h"
#include "transport/shared_memory.h"

namespace stagecoach::transport::ring {
namespace {

using fuzzing::FuzzInput;
using fuzzing::Require;

class SilentLink final : public PeerLink {
 public:
  void SayBye() override {}
};

Doorbell* OwnBell() {
  static Doorbell* const bell = Doorbell::Create()->release();
  return bell;
}

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

// Operations that were posted and how often they completed.
class Operations {
 public:
  size_t Post() {
    calls_.push_back(0);
    return calls_.size() - 1;
  }
  void Complete(size_t operation) {
    Require(++calls_[operation] == 1, "an operation completed twice");
  }
  void CheckAllComplete() const {
    for (const int calls : calls_) {
      Require(calls == 1, "an operation never completed");
    }
  }

 private:
  std::vector<int> calls_;
};

// An honest end, and the memory as the peer sees it.
class Edge {
 public:
  Edge(int slots, size_t slot_bytes)
      : memory_(EdgeMemory::Create(slots, slot_bytes).value()),
        peers_(SharedMemory::FromFd(Duplicate(memory_->fd())).value()),
        notices_(memory_->notice_producer()),
        control_(memory_->control_producer()) {}
  virtual ~Edge() = default;

  // One thing that the peer does or that happens to this end.
  void Step(FuzzInput* input) {
    switch (input->Below(8)) {
      case 0:
        return WriteAnything(input);
      case 1:
        return WriteCursor(input);
      case 2:
        return Announce(input);
      case 3:
        return Control(input);
      case 4:
        core().Progress();
        return;
      case 5:
        return End(input);
      default:
        return Use(input);
    }
  }
  void Finish() {
    core().Progress();
    core().Close();
    operations_.CheckAllComplete();
  }

 protected:
  virtual EdgeCore& core() = 0;
  virtual void Use(FuzzInput* input) = 0;

  EdgeContext Context() {
    EdgeContext context;
    context.name = "e";
    context.doorbell = OwnBell();
    context.on_edge_lost = [this](const std::string&, const absl::Status&) {
      Require(++losses_ == 1, "an edge was lost twice");
    };
    return context;
  }
  TransferHeader Header(FuzzInput* input) {
    TransferHeader header;
    header.microbatch = MicrobatchIndex(input->Below(4));
    return header;
  }
  bool IsInASlot(const void* data, size_t bytes) const {
    const char* const begin = static_cast<const char*>(data);
    for (int slot = 0; slot < memory_->slots(); ++slot) {
      const char* const base = memory_->slot(static_cast<uint32_t>(slot));
      if (begin >= base && begin + bytes <= base + memory_->slot_bytes()) {
        return true;
      }
    }
    return false;
  }

  const std::shared_ptr<EdgeMemory> memory_;
  Operations operations_;

 private:
  void WriteAnything(FuzzInput* input) {
    const size_t at = input->Word() % peers_->bytes();
    const absl::string_view bytes =
        input->Record().substr(0, peers_->bytes() - at);
    std::memcpy(peers_->data() + at, bytes.data(), bytes.size());
  }
  // Header and cursors are the first words.
  void WriteCursor(FuzzInput* input) {
    const size_t at = size_t{4} * static_cast<size_t>(input->Below(128));
    const uint32_t word = input->Word();
    std::memcpy(peers_->data() + at, &word, sizeof(word));
  }
  void Announce(FuzzInput* input) {
    PayloadNotice notice{};
    notice.sequence = sequence_++;
    notice.slot = static_cast<uint32_t>(input->Below(4));
    notice.tensor_count = 1;
    notice.tensors[0].dtype = static_cast<uint8_t>(DType::kUInt8);
    notice.tensors[0].rank = 1;
    notice.tensors[0].shape[0] = input->Byte();
    const absl::string_view bytes = input->Record().substr(0, sizeof(notice));
    std::memcpy(static_cast<void*>(&notice), bytes.data(), bytes.size());
    notices_.TryPush(notice);
  }
  void Control(FuzzInput* input) {
    ControlMessage message{};
    message.kind = static_cast<uint32_t>(input->Below(4));
    message.slot = static_cast<uint32_t>(input->Below(5));
    message.header.direction = static_cast<uint32_t>(input->Below(3));
    control_.TryPush(message);
  }
  void End(FuzzInput* input) {
    switch (input->Below(3)) {
      case 0:
        return core().Abort(absl::AbortedError("fuzzed"));
      case 1:
        return core().PeerEnded(absl::UnavailableError("fuzzed"),
                                /*lost=*/true);
      default:
        return core().PeerEnded(absl::AbortedError("fuzzed"), /*lost=*/false);
    }
  }

  const std::shared_ptr<SharedMemory> peers_;
  RingProducer<PayloadNotice> notices_;
  RingProducer<ControlMessage> control_;
  uint64_t sequence_ = 0;
  int losses_ = 0;
};

class ReceivingEdge final : public Edge {
 public:
  ReceivingEdge(int slots, size_t slot_bytes)
      : Edge(slots, slot_bytes),
        core_(std::make_shared<ReceiveCore>(Context(), memory_, true)) {
    Require(
        core_
            ->Attach(Doorbell::Create().value(), std::make_unique<SilentLink>())
            .ok(),
        "no sender could be attached");
  }

 private:
  EdgeCore& core() override { return *core_; }
  void Use(FuzzInput* input) override {
    switch (input->Below(4)) {
      case 0:
        return core_->Acknowledge(Header(input));
      case 1:
        return held_.clear();
      default:
        break;
    }
    const size_t operation = operations_.Post();
    core_->PostReceive(
        [this, operation](absl::StatusOr<ReceivedTransfer> transfer) {
          operations_.Complete(operation);
          if (transfer.ok()) Look(*std::move(transfer));
        });
  }
  void Look(ReceivedTransfer transfer) {
    for (const IncomingTensor& tensor : transfer.tensors) {
      Require(IsInASlot(tensor.data, tensor.descriptor.bytes()),
              "a tensor outside of the slots");
    }
    held_.push_back(std::move(transfer));
  }

  const std::shared_ptr<ReceiveCore> core_;
  std::vector<ReceivedTransfer> held_;
};

class SendingEdge final : public Edge {
 public:
  SendingEdge(int slots, size_t slot_bytes)
      : Edge(slots, slot_bytes),
        core_(std::make_shared<SendCore>(
            Context(), memory_, Doorbell::Create().value(),
            std::make_unique<SilentLink>(), [](const TransferHeader&) {})) {}

 private:
  EdgeCore& core() override { return *core_; }
  void Use(FuzzInput* input) override {
    OutgoingTensor tensor;
    tensor.descriptor.dtype = DType::kUInt8;
    tensor.descriptor.shape = {input->Byte()};
    tensor.data = values_.data();
    const size_t operation = operations_.Post();
    core_->PostSend(Header(input), {tensor},
                    [this, operation](const absl::Status&) {
                      operations_.Complete(operation);
                    });
  }

  const std::vector<char> values_ = std::vector<char>(256, 7);
  const std::shared_ptr<SendCore> core_;
};

// A header that the peer wrote: refused, or one that fits its memory.
void CheckOpen(FuzzInput* input) {
  const auto memory = EdgeMemory::Create(1 + input->Below(4), 64).value();
  const auto peers = SharedMemory::FromFd(Duplicate(memory->fd())).value();
  const size_t at = static_cast<size_t>(input->Below(24));
  const absl::string_view bytes = input->Record().substr(0, 24 - at);
  if (!bytes.empty()) {
    std::memcpy(peers->data() + at, bytes.data(), bytes.size());
  }
  const auto opened = EdgeMemory::Open(Duplicate(memory->fd()));
  if (!opened.ok()) {
    return Require(absl::IsDataLoss(opened.status()),
                   opened.status().ToString());
  }
  const uint32_t last = static_cast<uint32_t>((*opened)->slots()) - 1;
  (*opened)->slot(last)[(*opened)->slot_bytes() - 1] = 1;
}

}  // namespace
}  // namespace stagecoach::transport::ring

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace ring = stagecoach::transport::ring;
  stagecoach::fuzzing::FuzzInput input(data, size);
  const int role = input.Below(8);
  if (role == 0) {
    ring::CheckOpen(&input);
    return 0;
  }
  const int slots = 1 + input.Below(4);
  const size_t slot_bytes = 1 + input.Byte();
  std::unique_ptr<ring::Edge> edge;
  if (role % 2 == 0) {
    edge = std::make_unique<ring::SendingEdge>(slots, slot_bytes);
  } else {
    edge = std::make_unique<ring::ReceivingEdge>(slots, slot_bytes);
  }
  while (!input.empty()) edge->Step(&input);
  edge->Finish();
  return 0;
}
