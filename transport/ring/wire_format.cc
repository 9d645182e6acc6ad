#include "transport/ring/wire_format.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::transport::ring {
namespace {

static_assert(std::is_trivially_copyable_v<PayloadNotice>);
static_assert(std::is_trivially_copyable_v<ControlMessage>);
static_assert(sizeof(WireHeader) == 32 && sizeof(WireTensor) == 72,
              "both ends of an edge must see the same layout");

bool IsKnown(DType dtype) {
  return dtype >= DType::kFloat32 && dtype <= DType::kBool;
}

// TensorDescriptor::bytes() trusts its shape; this does not.
absl::StatusOr<size_t> CheckedBytes(const TensorDescriptor& tensor) {
  if (!IsKnown(tensor.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown tensor type ", static_cast<int>(tensor.dtype)));
  }
  if (tensor.shape.size() > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor has ", tensor.shape.size(),
                     " dimensions, at most ", kMaxRank, " can be sent"));
  }
  size_t bytes = DTypeBytes(tensor.dtype);
  bool empty = false;
  for (const int64_t dimension : tensor.shape) {
    if (dimension < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a tensor has the negative dimension ", dimension));
    }
    empty = empty || dimension == 0;
  }
  if (empty) return 0;
  for (const int64_t dimension : tensor.shape) {
    if (static_cast<uint64_t>(dimension) > kMaxTransferBytes / bytes) {
      return absl::InvalidArgumentError("a tensor has an absurd size");
    }
    bytes *= static_cast<size_t>(dimension);
  }
  return bytes;
}

void EncodeTensor(const TensorDescriptor& tensor, WireTensor* wire) {
  wire->dtype = static_cast<uint8_t>(tensor.dtype);
  wire->rank = static_cast<uint8_t>(tensor.shape.size());
  std::copy(tensor.shape.begin(), tensor.shape.end(), wire->shape);
}

absl::StatusOr<TensorDescriptor> DecodeTensor(const WireTensor& wire) {
  if (wire.rank > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor of ", wire.rank, " dimensions"));
  }
  TensorDescriptor tensor;
  tensor.dtype = static_cast<DType>(wire.dtype);
  tensor.shape.assign(wire.shape, wire.shape + wire.rank);
  return tensor;
}

absl::StatusOr<std::vector<IncomingTensor>> DecodeTensors(
    const PayloadNotice& notice, char* slot, size_t slot_bytes) {
  if (notice.tensor_count > kMaxTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat(notice.tensor_count, " tensors in one transfer"));
  }
  TensorPlacer placer;
  std::vector<IncomingTensor> tensors(notice.tensor_count);
  for (size_t i = 0; i < tensors.size(); ++i) {
    SC_ASSIGN_OR_RETURN(tensors[i].descriptor, DecodeTensor(notice.tensors[i]));
    SC_ASSIGN_OR_RETURN(const size_t offset, placer.Add(tensors[i].descriptor));
    if (placer.bytes() > slot_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a transfer of at least ", placer.bytes(),
                       " bytes in a slot of ", slot_bytes));
    }
    tensors[i].data = slot + offset;
  }
  return tensors;
}

}  // namespace

WireHeader EncodeHeader(const TransferHeader& header) {
  WireHeader wire{};
  wire.epoch = header.epoch.value();
  wire.step = header.step.value();
  wire.replica = header.replica;
  wire.microbatch = header.microbatch.value();
  wire.stage = header.stage.value();
  wire.direction = static_cast<uint32_t>(header.direction);
  return wire;
}

absl::StatusOr<TransferHeader> DecodeHeader(const WireHeader& wire) {
  if (wire.direction > static_cast<uint32_t>(Direction::kGradient)) {
    return absl::DataLossError(
        absl::StrCat("the peer wrote the unknown direction ", wire.direction));
  }
  TransferHeader header;
  header.epoch = Epoch(wire.epoch);
  header.step = StepIndex(wire.step);
  header.replica = wire.replica;
  header.microbatch = MicrobatchIndex(wire.microbatch);
  header.stage = StageIndex(wire.stage);
  header.direction = static_cast<Direction>(wire.direction);
  return header;
}

absl::StatusOr<size_t> TensorPlacer::Add(const TensorDescriptor& tensor) {
  if (count_ == kMaxTensors) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a transfer has more than ", kMaxTensors, " tensors; send fewer"));
  }
  SC_ASSIGN_OR_RETURN(const size_t tensor_bytes, CheckedBytes(tensor));
  const size_t offset = AlignedBytes(bytes_);
  bytes_ = offset + tensor_bytes;
  ++count_;
  return offset;
}

absl::StatusOr<EncodedTransfer> EncodeTransfer(
    const TransferHeader& header, const std::vector<OutgoingTensor>& tensors) {
  EncodedTransfer encoded{};
  encoded.notice.header = EncodeHeader(header);
  TensorPlacer placer;
  for (const OutgoingTensor& tensor : tensors) {
    SC_ASSIGN_OR_RETURN(const size_t offset, placer.Add(tensor.descriptor));
    if (tensor.data == nullptr && placer.bytes() > offset) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", encoded.offsets.size(), " has no data"));
    }
    EncodeTensor(tensor.descriptor,
                 &encoded.notice.tensors[encoded.offsets.size()]);
    encoded.offsets.push_back(offset);
  }
  encoded.notice.tensor_count = static_cast<uint32_t>(tensors.size());
  encoded.bytes = placer.bytes();
  return encoded;
}

absl::StatusOr<EncodedTransfer> EncodeTransferForSlot(
    const TransferHeader& header, const std::vector<OutgoingTensor>& tensors,
    size_t slot_bytes) {
  absl::StatusOr<EncodedTransfer> transfer = EncodeTransfer(header, tensors);
  if (!transfer.ok()) return Annotate(transfer.status(), ToString(header));
  if (transfer->bytes > slot_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(header), ": a transfer of ", transfer->bytes,
                     " bytes; a slot holds ", slot_bytes,
                     "; open the receiving end with larger slots"));
  }
  return transfer;
}

absl::StatusOr<ReceivedTransfer> DecodeTransfer(const PayloadNotice& notice,
                                                char* slot, size_t slot_bytes) {
  ReceivedTransfer transfer;
  SC_ASSIGN_OR_RETURN(transfer.header, DecodeHeader(notice.header));
  absl::StatusOr<std::vector<IncomingTensor>> tensors =
      DecodeTensors(notice, slot, slot_bytes);
  if (!tensors.ok()) {
    return absl::DataLossError(absl::StrCat(
        "the peer announced what cannot be, ", ToString(transfer.header), ": ",
        tensors.status().message()));
  }
  transfer.tensors = *std::move(tensors);
  return transfer;
}

}  // namespace stagecoach::transport::ring
