// Fuzz target of payload notices: whatever the peer announces lies in the slot,
// or is refused.

#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "transport/ring/wire_format.h"

namespace stagecoach::transport::ring {
namespace {

using fuzzing::Require;

// Reads the first and the last byte of each tensor.
void TouchTensors(const ReceivedTransfer& transfer,
                  const std::vector<char>& slot) {
  for (const IncomingTensor& tensor : transfer.tensors) {
    Require(tensor.descriptor.IsValid(),
            "not a tensor: " + tensor.descriptor.ToString());
    const size_t bytes = tensor.descriptor.bytes();
    const char* const begin = static_cast<const char*>(tensor.data);
    Require(begin >= slot.data() &&
                begin + bytes <= slot.data() + slot.size() &&
                bytes <= slot.size(),
            "outside of the slot: " + tensor.descriptor.ToString());
    if (bytes == 0) continue;
    const volatile char* const touched = begin;
    static_cast<void>(touched[0]);
    static_cast<void>(touched[bytes - 1]);
  }
}

// What was taken can be sent on and reads as the same.
void CheckEncoding(const ReceivedTransfer& transfer, std::vector<char>* slot) {
  std::vector<OutgoingTensor> tensors;
  for (const IncomingTensor& tensor : transfer.tensors) {
    tensors.push_back({tensor.descriptor, tensor.data});
  }
  const auto again = EncodeTransfer(transfer.header, tensors);
  Require(again.ok(), "cannot be written: " + again.status().ToString());
  const auto decoded =
      DecodeTransfer(again->notice, slot->data(), slot->size());
  Require(decoded.ok() && decoded->tensors.size() == tensors.size(),
          "reads as another transfer");
  for (size_t i = 0; i < tensors.size(); ++i) {
    Require(decoded->tensors[i].descriptor == tensors[i].descriptor &&
                decoded->tensors[i].data == tensors[i].data,
            "reads as another tensor");
  }
}

}  // namespace
}  // namespace stagecoach::transport::ring

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace ring = stagecoach::transport::ring;
  stagecoach::fuzzing::FuzzInput input(data, size);
  std::vector<char> slot(1 + input.Word() % 4096);
  ring::PayloadNotice notice{};
  const absl::string_view bytes = input.Bytes(sizeof(notice));
  std::memcpy(static_cast<void*>(&notice), bytes.data(), bytes.size());
  const auto transfer = ring::DecodeTransfer(notice, slot.data(), slot.size());
  if (!transfer.ok()) {
    stagecoach::fuzzing::Require(absl::IsDataLoss(transfer.status()),
                                 transfer.status().ToString());
    return 0;
  }
  ring::TouchTensors(*transfer, slot);
  ring::CheckEncoding(*transfer, &slot);
  return 0;
}
