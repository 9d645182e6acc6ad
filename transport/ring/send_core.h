#ifndef STAGECOACH_TRANSPORT_RING_SEND_CORE_H_
#define STAGECOACH_TRANSPORT_RING_SEND_CORE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "transport/ring/edge_core.h"
#include "transport/ring/edge_memory.h"
#include "transport/transport.h"

namespace stagecoach::transport::ring {

// The sending end. A posted transfer waits for a granted slot, is copied into
// it in Progress(), outside the lock, and announced. One that was produced in a
// slot is announced at once. Thread-safe.
class SendCore final : public EdgeCore {
 public:
  SendCore(EdgeContext context, std::shared_ptr<EdgeMemory> memory,
           std::unique_ptr<Doorbell> peer_bell, std::unique_ptr<PeerLink> link,
           Endpoint::AckHandler on_acknowledged);

  // As SendEdge. kInvalidArgument for a transfer that no slot can hold.
  void PostSend(const TransferHeader& header,
                std::vector<OutgoingTensor> tensors,
                SendEdge::LocalCompletion done) SC_EXCLUDES(mu_);
  std::optional<WritableSlot> TakeSlot() SC_EXCLUDES(mu_);
  void ReturnSlot(const WritableSlot& slot) SC_EXCLUDES(mu_);
  void PostSendFromSlot(const TransferHeader& header,
                        const TensorDescriptor& tensor,
                        const WritableSlot& slot,
                        SendEdge::LocalCompletion done) SC_EXCLUDES(mu_);

 private:
  struct Pending {
    EncodedTransfer transfer;
    std::vector<OutgoingTensor> tensors;
    SendEdge::LocalCompletion done;
    std::optional<uint32_t> slot;  // in which it lies already
  };

  absl::Status DrainLocked(bool* any) override SC_REQUIRES(mu_);
  void FailOutstandingLocked() override SC_REQUIRES(mu_);
  bool Work() override SC_EXCLUDES(mu_);

  absl::StatusOr<EncodedTransfer> Encode(
      const TransferHeader& header,
      const std::vector<OutgoingTensor>& tensors) const;
  absl::Status HandleLocked(const ControlMessage& message) SC_REQUIRES(mu_);
  absl::Status TakeGrantLocked(uint32_t slot) SC_REQUIRES(mu_);
  absl::Status TakeAcknowledgementLocked(const WireHeader& wire)
      SC_REQUIRES(mu_);
  bool IsTakenLocked(const WritableSlot& slot) const SC_REQUIRES(mu_);
  void CopyIntoSlot(const Pending& pending, uint32_t slot) const;
  void PublishLocked(Pending pending, uint32_t slot) SC_REQUIRES(mu_);
  void CompleteLocked(SendEdge::LocalCompletion done, absl::Status status)
      SC_REQUIRES(mu_);

  const std::shared_ptr<EdgeMemory> memory_;
  const Endpoint::AckHandler on_acknowledged_;
  RingConsumer<ControlMessage> control_ SC_GUARDED_BY(mu_);
  RingProducer<PayloadNotice> notices_ SC_GUARDED_BY(mu_);
  std::deque<Pending> queue_ SC_GUARDED_BY(mu_);
  // Progress() copies what was the first of the queue.
  bool copying_ SC_GUARDED_BY(mu_) = false;
  std::deque<uint32_t> grants_ SC_GUARDED_BY(mu_);
  // Slots that are this end's to write to, between grant and notice.
  std::vector<bool> granted_ SC_GUARDED_BY(mu_);
  // Those of them that somebody produces an output in.
  std::vector<bool> taken_ SC_GUARDED_BY(mu_);
  uint64_t next_sequence_ SC_GUARDED_BY(mu_) = 0;
};

}  // namespace stagecoach::transport::ring

#endif  // STAGECOACH_TRANSPORT_RING_SEND_CORE_H_
