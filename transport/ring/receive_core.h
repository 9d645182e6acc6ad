#ifndef STAGECOACH_TRANSPORT_RING_RECEIVE_CORE_H_
#define STAGECOACH_TRANSPORT_RING_RECEIVE_CORE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "transport/ring/edge_core.h"
#include "transport/ring/edge_memory.h"
#include "transport/transport.h"

namespace stagecoach::transport::ring {

// The receiving end: the pool of slots and its grants. Thread-safe.
//
// A slot:  kFree ─ grant ─▶ kGranted ─ notice ─▶ kHeld ─ last reference ─▶
// kFree
//
// A slot that was granted to a peer which never used it is not taken back: the
// edge ends with that peer.
class ReceiveCore final : public EdgeCore,
                          public std::enable_shared_from_this<ReceiveCore> {
 public:
  ReceiveCore(EdgeContext context, std::shared_ptr<EdgeMemory> memory,
              bool poison_returned);

  // The sender has come. kFailedPrecondition if there is one already or the
  // edge has ended.
  absl::Status Attach(std::unique_ptr<Doorbell> peer_bell,
                      std::unique_ptr<PeerLink> link) SC_EXCLUDES(mu_);

  // As ReceiveEdge.
  void PostReceive(ReceiveEdge::Completion done) SC_EXCLUDES(mu_);
  void Acknowledge(const TransferHeader& header) SC_EXCLUDES(mu_);
  const std::shared_ptr<EdgeMemory>& memory() const { return memory_; }

 private:
  enum class Slot : uint8_t { kFree, kGranted, kHeld };

  absl::Status DrainLocked(bool* any) override SC_REQUIRES(mu_);
  void FailOutstandingLocked() override SC_REQUIRES(mu_);

  absl::Status TakeLocked(const PayloadNotice& notice) SC_REQUIRES(mu_);
  absl::Status CheckLocked(const PayloadNotice& notice) const SC_REQUIRES(mu_);
  std::shared_ptr<void> HoldLocked(uint32_t slot) SC_REQUIRES(mu_);
  // From the deleter of a received transfer's memory; any thread, any time.
  void ReturnSlot(uint32_t slot) SC_EXCLUDES(mu_);
  void GrantLocked() SC_REQUIRES(mu_);
  void SendLocked(const ControlMessage& message) SC_REQUIRES(mu_);
  absl::Status FlushLocked() SC_REQUIRES(mu_);
  void FailLocked(ReceiveEdge::Completion done) SC_REQUIRES(mu_);

  const std::shared_ptr<EdgeMemory> memory_;
  const bool poison_returned_;
  RingProducer<ControlMessage> control_ SC_GUARDED_BY(mu_);
  RingConsumer<PayloadNotice> notices_ SC_GUARDED_BY(mu_);
  std::deque<ReceiveEdge::Completion> receives_ SC_GUARDED_BY(mu_);
  // How many of `receives_` have no grant yet.
  int ungranted_ SC_GUARDED_BY(mu_) = 0;
  std::vector<Slot> slots_ SC_GUARDED_BY(mu_);
  // The last one freed is the first granted: it is in the cache.
  std::vector<uint32_t> free_ SC_GUARDED_BY(mu_);
  // For the peer, in order, when its ring is full.
  std::deque<ControlMessage> outbox_ SC_GUARDED_BY(mu_);
  uint64_t next_sequence_ SC_GUARDED_BY(mu_) = 0;
};

}  // namespace stagecoach::transport::ring

#endif  // STAGECOACH_TRANSPORT_RING_RECEIVE_CORE_H_
