#ifndef STAGECOACH_TRANSPORT_TWO_SIDED_RECEIVE_END_H_
#define STAGECOACH_TRANSPORT_TWO_SIDED_RECEIVE_END_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/two_sided/edge_end.h"

namespace stagecoach::transport::two_sided {

// The receiving end: the pool of slots, its grants, and what has
// arrived. Thread-safe where EdgeCore is.
//
// A slot:  free ─ announcement ─▶ being filled ─▶ held ─ last reference ─▶ free
// A grant reserves one of the free ones.
class ReceiveEnd final : public EdgeEnd,
                         public std::enable_shared_from_this<ReceiveEnd> {
 public:
  // kInvalidArgument for a pool without slots or bytes; else as
  // Carrier::AllocatePool.
  static absl::StatusOr<std::shared_ptr<ReceiveEnd>> Create(
      ring::EdgeContext context, std::shared_ptr<Shared> shared,
      const EdgeOptions& options);

  // Reactor: the sender has come. kFailedPrecondition if there is one already
  // or this end is over.
  absl::Status CheckFree() const SC_EXCLUDES(mu_);
  // Reactor: answers and makes the communicator.
  void Welcome(const std::string& sender, uint64_t connection,
               const std::string& introduction);

  // As ReceiveEdge; any thread.
  void PostReceive(ReceiveEdge::Completion done) SC_EXCLUDES(mu_);
  void Acknowledge(const TransferHeader& header) SC_EXCLUDES(mu_);
  int64_t pool_bytes() const { return static_cast<int64_t>(pool_->bytes()); }

 private:
  ReceiveEnd(ring::EdgeContext context, std::shared_ptr<Shared> shared,
             const EdgeOptions& options, std::shared_ptr<PoolMemory> pool);

  absl::Status DrainLocked(bool* any) override SC_REQUIRES(mu_);
  void FailOutstandingLocked() override SC_REQUIRES(mu_);

  absl::Status HandleMessage(const ControlMessage& message) override;
  absl::Status Place(const ControlMessage& message, size_t slot,
                     std::vector<IncomingTensor>* tensors) const;
  void OnReady() override;
  bool StartTransfers() override;
  void OnCompleted(uint64_t sequence) override;
  void Flush() override { SendAcknowledgements(); }
  bool MayLeave() const override { return true; }
  bool SendGrants() SC_EXCLUDES(mu_);
  bool SendAcknowledgements() SC_EXCLUDES(mu_);
  bool StartAnnounced() SC_EXCLUDES(mu_);
  absl::Status StartOne(const ControlMessage& announcement) SC_EXCLUDES(mu_);

  char* SlotData(size_t slot) const {
    return pool_->data() + slot * AlignedBytes(slot_bytes_);
  }
  // From the deleter of a received transfer's memory; any thread, any time.
  void ReturnSlot(size_t slot) SC_EXCLUDES(mu_);

  const size_t slot_bytes_;
  const bool poison_returned_;
  const std::shared_ptr<PoolMemory> pool_;

  struct FreeSlot {
    size_t slot;
    // What the engine still reads there; null where nothing.
    std::shared_ptr<const Mark> read;
  };
  // The last one freed is the first used.
  std::vector<FreeSlot> free_ SC_GUARDED_BY(mu_);
  std::deque<ReceiveEdge::Completion> receives_ SC_GUARDED_BY(mu_);
  // How many of `receives_` have no grant yet.
  size_t ungranted_ SC_GUARDED_BY(mu_) = 0;
  std::deque<ReceivedTransfer> arrived_ SC_GUARDED_BY(mu_);
  std::vector<TransferHeader> acknowledgements_ SC_GUARDED_BY(mu_);

  // The reactor's.
  struct Filling {
    ReceivedTransfer transfer;  // without its memory
    size_t slot;
  };
  std::deque<ControlMessage> announced_;  // in order, not submitted
  std::deque<Filling> filling_;
  uint64_t granted_ = 0;
  uint64_t submitted_ = 0;
};

}  // namespace stagecoach::transport::two_sided

#endif  // STAGECOACH_TRANSPORT_TWO_SIDED_RECEIVE_END_H_
