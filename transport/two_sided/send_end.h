#ifndef STAGECOACH_TRANSPORT_TWO_SIDED_SEND_END_H_
#define STAGECOACH_TRANSPORT_TWO_SIDED_SEND_END_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "transport/two_sided/edge_end.h"

namespace stagecoach::transport::two_sided {

// The sending end: announces and sends what is posted, as far as the receiver
// has granted it. Thread-safe where EdgeCore is.
class SendEnd final : public EdgeEnd {
 public:
  // Called once, on the reactor's thread: the edge is open, or why not.
  using Opened = std::function<void(absl::Status)>;

  SendEnd(ring::EdgeContext context, std::shared_ptr<Shared> shared,
          Endpoint::AckHandler on_acknowledged);

  // Reactor: the edge is to be opened with the peer at `address`, `within` so
  // long from now.
  void PrepareOpening(const std::string& address, uint64_t connection,
                      absl::Duration within, Opened opened);
  // Reactor: asks the peer for it.
  void Open();

  // As SendEdge; any thread. kInvalidArgument for a transfer that no slot can
  // hold.
  void PostSend(const TransferHeader& header,
                std::vector<OutgoingTensor> tensors,
                SendEdge::LocalCompletion done) SC_EXCLUDES(mu_);

 private:
  struct Pending {
    TransferHeader header;
    std::vector<OutgoingTensor> tensors;
    std::shared_ptr<const Mark> computed;
    SendEdge::LocalCompletion done;
  };

  absl::Status DrainLocked(bool* any) override SC_REQUIRES(mu_);
  void FailOutstandingLocked() override SC_REQUIRES(mu_);
  void CompleteLocked(SendEdge::LocalCompletion done, absl::Status status)
      SC_REQUIRES(mu_);

  bool ConnectFailed(const absl::Status& why) override;
  void CheckOpening(absl::Time now) override;
  absl::Status HandleMessage(const ControlMessage& message) override;
  absl::Status OnWelcome(const ControlMessage& message);
  absl::Status OnAcknowledged(const ControlMessage& message);
  void OnReady() override;
  bool StartTransfers() override;
  void OnCompleted(uint64_t sequence) override;
  void FailUnderWay() override;
  bool MayLeave() const override { return landed_ >= completed_count_; }
  void Announce(const Pending& pending);

  absl::Status Check(const TransferHeader& header,
                     const std::vector<OutgoingTensor>& tensors) const
      SC_EXCLUDES(mu_);

  const Endpoint::AckHandler on_acknowledged_;
  std::deque<Pending> queue_ SC_GUARDED_BY(mu_);
  // Complete, for the next Progress() to say so.
  std::vector<SendEdge::LocalCompletion> completed_ SC_GUARDED_BY(mu_);
  std::vector<TransferHeader> acknowledged_ SC_GUARDED_BY(mu_);
  size_t slot_bytes_ SC_GUARDED_BY(mu_) = 0;

  // The reactor's.
  Opened opened_;
  absl::Time open_deadline_ = absl::InfiniteFuture();
  absl::Duration open_within_ = absl::ZeroDuration();
  std::deque<SendEdge::LocalCompletion> under_way_;
  uint64_t granted_ = 0;
  uint64_t announced_ = 0;
  uint64_t landed_ = 0;
};

}  // namespace stagecoach::transport::two_sided

#endif  // STAGECOACH_TRANSPORT_TWO_SIDED_SEND_END_H_
