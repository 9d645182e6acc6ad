// Fuzz target of what the two ends of a two-sided edge say to each other:
// whatever comes is a message that is written again as it was read, or is
// refused.

#include <string>

#include "absl/status/status.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "transport/two_sided/control_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace two_sided = stagecoach::transport::two_sided;
  using stagecoach::fuzzing::Require;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto message = two_sided::DecodeControl(bytes);
  if (!message.ok()) {
    Require(absl::IsDataLoss(message.status()), message.status().ToString());
    return 0;
  }
  Require(message->headers.size() <= two_sided::kMaxHeadersPerMessage,
          "more headers than fit");
  for (const auto& tensor : message->tensors) {
    Require(tensor.IsValid(), "not a tensor: " + tensor.ToString());
  }
  const std::string again = two_sided::EncodeControl(*message);
  const auto read = two_sided::DecodeControl(again);
  Require(read.ok(), "cannot be read again: " + read.status().ToString());
  Require(two_sided::EncodeControl(*read) == again, "reads as another message");
  return 0;
}
