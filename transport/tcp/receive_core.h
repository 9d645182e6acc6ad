#ifndef STAGECOACH_TRANSPORT_TCP_RECEIVE_CORE_H_
#define STAGECOACH_TRANSPORT_TCP_RECEIVE_CORE_H_

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/ring/edge_core.h"
#include "transport/ring/wire_format.h"
#include "transport/tcp/counters.h"
#include "transport/tcp/edge_port.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/frame_writer.h"
#include "transport/tcp/slot_pool.h"
#include "transport/transport.h"

namespace stagecoach::transport::tcp {

// The receiving end of an edge: its pool, its grants, and what it must say
// again after a broken connection. The n-th grant is for the n-th transfer.
// Thread-safe.
//
// A slot:  kFree ─ grant ─▶ kGranted ─ all bytes ─▶ kHeld ─ last reference ─▶
// kFree
class ReceiveCore final : public ring::EdgeCore,
                          public FrameSource,
                          public std::enable_shared_from_this<ReceiveCore> {
 public:
  // `counters` must outlive the edge's use of its connection.
  ReceiveCore(ring::EdgeContext context, std::unique_ptr<SlotPool> pool,
              bool poison_returned, Counters* counters);

  // As ReceiveEdge.
  void PostReceive(ReceiveEdge::Completion done) SC_EXCLUDES(mu_);
  void Acknowledge(const TransferHeader& header) SC_EXCLUDES(mu_);
  const SlotPool& pool() const { return *pool_; }

  // --- for the connection, on the reactor ---
  // The sender has come. kFailedPrecondition if there is one already or the
  // edge has ended.
  absl::Status Attach(std::shared_ptr<EdgePort> port) SC_EXCLUDES(mu_);
  // It is there (again), and has seen so many acknowledgements. Where this end
  // stands; kInvalidArgument if that cannot be.
  absl::StatusOr<EdgeOpened> Open(uint64_t seen) SC_EXCLUDES(mu_);
  void OnDisconnected() SC_EXCLUDES(mu_);
  // kInvalidArgument, counted, for what the sender may not say.
  absl::Status OnAnnounce(const Announce& announce) SC_EXCLUDES(mu_);
  absl::Status OnSeen(uint64_t seen) SC_EXCLUDES(mu_);
  // Where the bytes go; nowhere for a duplicate, or if the edge has ended.
  absl::StatusOr<std::vector<iovec>> OnPayload(uint64_t sequence,
                                               uint64_t bytes) SC_EXCLUDES(mu_);
  void OnPayloadEnd(bool cancelled) SC_EXCLUDES(mu_);

  bool NextFrames(uint32_t edge, std::string* out,
                  OutgoingPayload* payload) override SC_EXCLUDES(mu_);
  void OnPayloadGone(uint64_t /*sequence*/) override {}

 private:
  enum class Slot : uint8_t { kFree, kGranted, kHeld };
  struct Announced {
    ReceivedTransfer transfer;  // in the slot once there is one
    ring::PayloadNotice notice;
    uint64_t payload_bytes = 0;
  };
  struct Arrived {
    ReceivedTransfer transfer;  // without memory
    uint32_t slot = 0;
  };

  absl::Status DrainLocked(bool* any) override SC_REQUIRES(mu_);
  void FailOutstandingLocked() override SC_REQUIRES(mu_);
  void FailLocked(ReceiveEdge::Completion done) SC_REQUIRES(mu_);
  absl::Status Refuse(Refusal reason, const std::string& what) const;
  void GrantLocked() SC_REQUIRES(mu_);
  std::shared_ptr<void> HoldLocked(uint32_t slot) SC_REQUIRES(mu_);
  // From the deleter of a received transfer's memory; any thread, any time.
  void ReturnSlot(uint32_t slot) SC_EXCLUDES(mu_);

  const std::unique_ptr<SlotPool> pool_;
  const bool poison_returned_;
  Counters* const counters_;
  std::shared_ptr<EdgePort> port_ SC_GUARDED_BY(mu_);
  bool connected_ SC_GUARDED_BY(mu_) = false;

  std::deque<ReceiveEdge::Completion> receives_ SC_GUARDED_BY(mu_);
  // How many of `receives_` have no grant yet.
  int ungranted_ SC_GUARDED_BY(mu_) = 0;
  std::vector<Slot> slots_ SC_GUARDED_BY(mu_);
  // The last one freed is the first granted: it is in the cache.
  std::vector<uint32_t> free_ SC_GUARDED_BY(mu_);
  std::deque<uint32_t> granted_slots_ SC_GUARDED_BY(mu_);
  uint64_t granted_ SC_GUARDED_BY(mu_) = 0;
  uint64_t received_ SC_GUARDED_BY(mu_) = 0;
  // From transfer `received_` on.
  std::deque<Announced> announced_ SC_GUARDED_BY(mu_);
  bool reading_ SC_GUARDED_BY(mu_) = false;  // transfer `received_`
  std::deque<Arrived> arrived_ SC_GUARDED_BY(mu_);

  // Acknowledgements that the sender may not have seen; the first is number
  // `acks_base_`.
  std::deque<ring::WireHeader> acks_ SC_GUARDED_BY(mu_);
  uint64_t acks_base_ SC_GUARDED_BY(mu_) = 0;
  // What has been said on this connection.
  uint64_t acks_said_ SC_GUARDED_BY(mu_) = 0;
  uint64_t granted_said_ SC_GUARDED_BY(mu_) = 0;
  uint64_t received_said_ SC_GUARDED_BY(mu_) = 0;
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_RECEIVE_CORE_H_
