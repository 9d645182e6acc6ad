#ifndef STAGECOACH_TRANSPORT_TCP_SEND_CORE_H_
#define STAGECOACH_TRANSPORT_TCP_SEND_CORE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/ring/edge_core.h"
#include "transport/ring/wire_format.h"
#include "transport/tcp/counters.h"
#include "transport/tcp/edge_port.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/frame_writer.h"
#include "transport/transport.h"

namespace stagecoach::transport::tcp {

// The sending end of an edge. A transfer is numbered when it is posted,
// announced, sent once granted, and kept until the receiver says that it has
// all of it: after a broken connection what it has not is sent again. That
// word of the receiver is its local completion. Thread-safe.
//
//   base_ ........ sending_ ........ announced_ ........ base_ +
//   pending_.size()
//    sent, not       announced,         posted
//    confirmed       not sent
class SendCore final : public ring::EdgeCore, public FrameSource {
 public:
  // `counters` must outlive the edge's use of its connection.
  SendCore(ring::EdgeContext context, Endpoint::AckHandler on_acknowledged,
           Counters* counters);

  // Before anything else.
  void Bind(std::shared_ptr<EdgePort> port) SC_EXCLUDES(mu_);
  // As SendEdge. kInvalidArgument for a transfer that no slot can hold.
  void PostSend(const TransferHeader& header,
                std::vector<OutgoingTensor> tensors,
                SendEdge::LocalCompletion done) SC_EXCLUDES(mu_);
  void Abort(const absl::Status& status) override SC_EXCLUDES(mu_);

  // --- for the connection, on the reactor ---
  // How many acknowledgements have arrived.
  uint64_t seen() SC_EXCLUDES(mu_);
  // The receiving end is there (again), and says where it stands. kDataLoss if
  // that cannot be.
  absl::Status OnOpened(const EdgeOpened& opened) SC_EXCLUDES(mu_);
  void OnDisconnected() SC_EXCLUDES(mu_);
  // *advanced: the receiver has got further. kDataLoss if that cannot be.
  absl::Status OnStatus(const EdgeStatus& status, bool* advanced)
      SC_EXCLUDES(mu_);

  bool NextFrames(uint32_t edge, std::string* out,
                  OutgoingPayload* payload) override SC_EXCLUDES(mu_);
  void OnPayloadGone(uint64_t sequence) override SC_EXCLUDES(mu_);

 private:
  struct Pending {
    ring::EncodedTransfer transfer;
    uint64_t payload_bytes = 0;
    std::vector<OutgoingTensor> tensors;
    SendEdge::LocalCompletion done;
    bool started = false;  // on some connection
  };

  absl::Status DrainLocked(bool* any) override SC_REQUIRES(mu_);
  void FailOutstandingLocked() override SC_REQUIRES(mu_);
  void CompleteLocked(SendEdge::LocalCompletion done, absl::Status status)
      SC_REQUIRES(mu_);
  // Whether any transfer was completed.
  bool CompleteConfirmedLocked() SC_REQUIRES(mu_);
  absl::Status TakeAcksLocked(const EdgeStatus& status) SC_REQUIRES(mu_);
  uint64_t end_locked() const SC_REQUIRES(mu_) {
    return base_ + pending_.size();
  }
  void AnnounceLocked(uint32_t edge, std::string* out) SC_REQUIRES(mu_);
  void StartPayloadLocked(uint32_t edge, std::string* out,
                          OutgoingPayload* payload) SC_REQUIRES(mu_);

  const Endpoint::AckHandler on_acknowledged_;
  Counters* const counters_;
  std::shared_ptr<EdgePort> port_ SC_GUARDED_BY(mu_);
  bool connected_ SC_GUARDED_BY(mu_) = false;
  uint64_t slot_bytes_ SC_GUARDED_BY(mu_) = 0;
  std::deque<Pending> pending_ SC_GUARDED_BY(mu_);
  uint64_t base_ SC_GUARDED_BY(mu_) = 0;
  uint64_t sending_ SC_GUARDED_BY(mu_) = 0;
  uint64_t announced_ SC_GUARDED_BY(mu_) = 0;
  uint64_t granted_ SC_GUARDED_BY(mu_) = 0;
  uint64_t confirmed_ SC_GUARDED_BY(mu_) = 0;  // the receiver has these
  // The transfer whose bytes the writer reads.
  std::optional<uint64_t> in_writer_ SC_GUARDED_BY(mu_);
  // That transfer, once the edge has ended: it fails when the writer is done.
  std::optional<Pending> held_back_ SC_GUARDED_BY(mu_);
  uint64_t seen_ SC_GUARDED_BY(mu_) = 0;
  uint64_t seen_told_ SC_GUARDED_BY(mu_) = 0;
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_SEND_CORE_H_
