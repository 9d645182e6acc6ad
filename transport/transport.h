#ifndef STAGECOACH_TRANSPORT_TRANSPORT_H_
#define STAGECOACH_TRANSPORT_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/direction.h"
#include "base/ids.h"
#include "base/tensor_descriptor.h"
#include "transport/control_channel.h"
#include "transport/doorbell.h"
#include "transport/refusals.h"

namespace stagecoach::transport {

// Names a transfer to both ends.
struct TransferHeader {
  Epoch epoch;
  StepIndex step;
  int32_t replica = 0;
  MicrobatchIndex microbatch;
  StageIndex stage;  // the stage that produced it
  Direction direction = Direction::kActivation;

  friend bool operator==(const TransferHeader& a, const TransferHeader& b) {
    return a.epoch == b.epoch && a.step == b.step && a.replica == b.replica &&
           a.microbatch == b.microbatch && a.stage == b.stage &&
           a.direction == b.direction;
  }
};
std::string ToString(const TransferHeader& header);

struct OutgoingTensor {
  TensorDescriptor descriptor;
  const void* data = nullptr;
};
struct IncomingTensor {
  TensorDescriptor descriptor;
  void* data = nullptr;  // 64-byte aligned
};

// What EdgeOptions::slot_bytes must at least be for a transfer of these
// tensors.
size_t SlotBytesFor(const std::vector<TensorDescriptor>& tensors);

// All tensors of one transfer, in memory that belongs to the receiver. The
// memory goes back to the edge's pool when the last copy of `memory` is
// dropped; dropping takes the edge's lock, so never do it under another lock
// that a callback of the edge might want.
struct ReceivedTransfer {
  TransferHeader header;
  std::vector<IncomingTensor> tensors;
  std::shared_ptr<void> memory;
};

// A granted slot of the receiver's memory in the sender's hands, to produce a
// transfer in.
struct WritableSlot {
  void* data = nullptr;  // 64-byte aligned
  size_t bytes = 0;
  uint32_t index = 0;            // the edge's own
  std::shared_ptr<void> memory;  // keeps `data` mapped
};

// What happened to the connections of an endpoint, from its start.
struct LinkCounters {
  int64_t reconnections = 0;
  int64_t resent_transfers = 0;     // payloads begun again, as the sender
  int64_t duplicate_transfers = 0;  // payloads that were there already
  int64_t duplicate_acknowledgements = 0;
  // Connections, frames, notices and memory that were turned away.
  RefusalsByReason refused_by{};
  int64_t refused() const {
    return std::accumulate(refused_by.begin(), refused_by.end(), int64_t{0});
  }
};

// The sending end of one edge, a FIFO. A transfer is announced, granted, sent
// and acknowledged as one; no payload moves before its grant. Thread-safe.
class SendEdge {
 public:
  // Called with OK once the receiver owns, or has copied, the bytes, and with
  // an error if that will never happen (abort, edge lost): exactly once. The
  // tensors' data must stay as it is until then.
  using LocalCompletion = std::function<void(absl::Status)>;

  // Closes gracefully: the peer sees an end, not a loss. Outstanding operations
  // fail on this thread; callbacks of this edge that run on others are waited
  // for, so never call it under a lock that they take. Afterwards none runs.
  virtual ~SendEdge() = default;

  // Never blocks and never calls `done` before it returns... unless from
  // another thread's Progress(). The tensors are in order; a tensor may have
  // zero bytes.
  virtual void PostSend(const TransferHeader& header,
                        std::vector<OutgoingTensor> tensors,
                        LocalCompletion done) = 0;

  // Zero copy, where the receiver's memory is mapped here. Takes a granted slot
  // for the transfer that is posted next; nothing if none is at hand, or where
  // the path has none. What is taken must come back by one of the next two, or
  // the receiver waits for its turn.
  virtual std::optional<WritableSlot> TakeSlot() { return std::nullopt; }
  virtual void ReturnSlot(const WritableSlot& slot);
  // As PostSend for one tensor, which lies at the beginning of `slot`. Nobody
  // in this process may read or write it any more: it is the receiver's.
  virtual void PostSendFromSlot(const TransferHeader& header,
                                const TensorDescriptor& tensor,
                                const WritableSlot& slot, LocalCompletion done);
};

// The receiving end of one edge. Thread-safe.
class ReceiveEdge {
 public:
  using Completion = std::function<void(absl::StatusOr<ReceivedTransfer>)>;

  virtual ~ReceiveEdge() = default;  // as SendEdge

  // Grants the sender one more transfer as soon as the pool has room for it.
  // The n-th posted receive gets the n-th transfer sent. `done` is called
  // exactly once, with an error on abort or loss.
  virtual void PostReceive(Completion done) = 0;
  // Tells the sender that this end holds all bytes of the transfer and that
  // they match. Idempotent for the sender.
  virtual void Acknowledge(const TransferHeader& header) = 0;
  // Bytes that the pool occupies in this process, from open to close.
  virtual int64_t pool_bytes() const = 0;
};

struct EdgeOptions {
  // Unique among the edges into one endpoint, equal at both ends, for example
  // "activation 0->1".
  std::string name;
  // Receiver only: the pool. A transfer larger than a slot is an error.
  int slots = 0;
  size_t slot_bytes = 0;
  // Receiver only: fill returned slots with 0xFF, for tests and debugging.
  bool poison_returned = false;
};

struct EndpointOptions {
  // Rung whenever Progress() may have something to do. Must outlive the
  // endpoint.
  Doorbell* doorbell = nullptr;
  // An edge ended without being closed: its peer died or the link broke. Called
  // from Progress() or from a thread of the endpoint, at most once per edge,
  // and before the edge's operations fail. It must not destroy the endpoint.
  std::function<void(const std::string& edge, absl::Status)> on_edge_lost;
  // The placement that the endpoint serves. A transport between processes turns
  // away peers of another.
  Epoch epoch;
  // The names of all edges that will be opened here, either end, in an order
  // that is the same on every worker of the placement. Empty: in any order. For
  // paths whose two ends open an edge together (nccl).
  std::vector<std::string> opening_order;
  // For transports that carry payloads only (nccl); null: there is none.
  ControlChannelFactory control_channels;
};

// One process's end of the data path, for one placement of one job. Edges must
// be destroyed before their endpoint. Thread-safe; nothing here blocks but
// OpenSend.
class Endpoint {
 public:
  // As the peer stated it; the same header may come twice, late, or for a
  // transfer that this end does not know.
  using AckHandler = std::function<void(const TransferHeader& header)>;

  virtual ~Endpoint() = default;

  virtual absl::string_view kind() const = 0;  // "shm", "tcp", "loopback"
  // What a peer's endpoint of the same kind needs to reach this one. Opaque,
  // printable.
  virtual std::string Describe() const = 0;
  // OK, or why this endpoint cannot reach the peer that described itself so.
  virtual absl::Status IsViable(absl::string_view peer) const = 0;

  virtual absl::StatusOr<std::unique_ptr<ReceiveEdge>> OpenReceive(
      const EdgeOptions& options) = 0;
  // The peer must have opened the receiving end. Blocks at most `timeout`.
  // kUnavailable if the peer cannot be reached, kNotFound if it has no such
  // edge.
  virtual absl::StatusOr<std::unique_ptr<SendEdge>> OpenSend(
      const EdgeOptions& options, absl::string_view peer,
      AckHandler on_acknowledged, absl::Duration timeout) = 0;

  virtual LinkCounters counters() const { return LinkCounters(); }

  // Does what can be done now: copies, completions, acknowledgements. Callbacks
  // run inside, on the calling thread, with no lock held. Returns whether
  // anything happened. Any thread; concurrent calls are safe, one of them
  // works.
  virtual bool Progress() = 0;
  // Terminal: every outstanding operation completes with `status` (from this
  // call or a later Progress()), later ones at once. Memory already received
  // stays valid. Rings the doorbell.
  virtual void Abort(absl::Status status) = 0;
};

// Makes an endpoint; a worker's main registers one factory per kind.
using EndpointFactory = std::function<absl::StatusOr<std::unique_ptr<Endpoint>>(
    const EndpointOptions& options)>;

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_TRANSPORT_H_
