#ifndef STAGECOACH_TRANSPORT_RING_WIRE_FORMAT_H_
#define STAGECOACH_TRANSPORT_RING_WIRE_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/transport.h"

// What goes through the rings of an edge, and the checks on what comes out.
// Whatever the peer wrote, decoding gives a value in range or an error.
namespace stagecoach::transport::ring {

inline constexpr size_t kMaxTensors = 16;
inline constexpr size_t kMaxRank = 8;
// Far above any slot; keeps sums of sizes far from overflow.
inline constexpr size_t kMaxTransferBytes = size_t{1} << 46;

struct WireHeader {
  int64_t epoch;
  int64_t step;
  int32_t replica;
  int32_t microbatch;
  int32_t stage;
  uint32_t direction;
};

struct WireTensor {
  uint8_t dtype;
  uint8_t rank;
  uint8_t unused[6];
  int64_t shape[kMaxRank];
};

// Sender to receiver: a slot has been filled. Where each tensor lies in it
// follows from the shapes.
struct PayloadNotice {
  uint64_t sequence;  // of the edge, from 0
  uint32_t slot;
  uint32_t tensor_count;
  WireHeader header;
  WireTensor tensors[kMaxTensors];
};

// Receiver to sender.
enum class ControlKind : uint32_t { kGrant = 1, kAcknowledgement = 2 };
struct ControlMessage {
  uint32_t kind;
  uint32_t slot;      // kGrant
  WireHeader header;  // kAcknowledgement
};

WireHeader EncodeHeader(const TransferHeader& header);
// kDataLoss if the direction is none.
absl::StatusOr<TransferHeader> DecodeHeader(const WireHeader& wire);

// Lays tensors into a slot one after the other.
class TensorPlacer {
 public:
  // The offset of the next tensor. kInvalidArgument for more than kMaxTensors,
  // an unknown type, more than kMaxRank dimensions, a negative dimension or an
  // absurd size.
  absl::StatusOr<size_t> Add(const TensorDescriptor& tensor);
  // Up to the end of the last one.
  size_t bytes() const { return bytes_; }

 private:
  size_t count_ = 0;
  size_t bytes_ = 0;
};

// Everything of `notice` but sequence and slot. kInvalidArgument as
// TensorPlacer, and for a null tensor that has bytes.
struct EncodedTransfer {
  PayloadNotice notice;
  std::vector<size_t> offsets;  // in the slot
  size_t bytes = 0;
};
absl::StatusOr<EncodedTransfer> EncodeTransfer(
    const TransferHeader& header, const std::vector<OutgoingTensor>& tensors);
// The same for a slot of the receiver: kInvalidArgument also if it is too
// small. Messages name the transfer.
absl::StatusOr<EncodedTransfer> EncodeTransferForSlot(
    const TransferHeader& header, const std::vector<OutgoingTensor>& tensors,
    size_t slot_bytes);

// The transfer in `slot`, which has room for `slot_bytes`; `memory` is left
// empty. kDataLoss if the notice cannot be true.
absl::StatusOr<ReceivedTransfer> DecodeTransfer(const PayloadNotice& notice,
                                                char* slot, size_t slot_bytes);

}  // namespace stagecoach::transport::ring

#endif  // STAGECOACH_TRANSPORT_RING_WIRE_FORMAT_H_
