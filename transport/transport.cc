#include "transport/transport.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach::transport {

std::string ToString(const TransferHeader& header) {
  return absl::StrCat("stage ", header.stage.value(), ", step ",
                      header.step.value(), ", microbatch ",
                      header.microbatch.value(), " (",
                      DirectionName(header.direction), ", epoch ",
                      header.epoch.value(), ", replica ", header.replica, ")");
}

size_t SlotBytesFor(const std::vector<TensorDescriptor>& tensors) {
  size_t bytes = 0;
  for (const TensorDescriptor& tensor : tensors) {
    bytes = AlignedBytes(bytes) + tensor.bytes();
  }
  return bytes;
}

void SendEdge::ReturnSlot(const WritableSlot& /*slot*/) {}

void SendEdge::PostSendFromSlot(const TransferHeader& header,
                                const TensorDescriptor& tensor,
                                const WritableSlot& slot,
                                LocalCompletion done) {
  PostSend(header, {OutgoingTensor{tensor, slot.data}}, std::move(done));
}

}  // namespace stagecoach::transport
