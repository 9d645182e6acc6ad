// Fuzz target of what comes over an edge's socket, and of descriptors that
// peers send through the coordinator. Whatever is taken is written back as it
// was.

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "transport/shm/descriptor.h"
#include "transport/shm/greeting.h"

namespace stagecoach::transport::shm {
namespace {

using fuzzing::Require;

void CheckHello(absl::string_view packet) {
  const auto hello = DecodeHello(packet);
  if (!hello.ok()) return;
  const auto again = EncodeHello(*hello);
  Require(again.ok(), "a hello that cannot be written");
  Require(DecodeHello(*again)->edge == hello->edge &&
              DecodeHello(*again)->epoch == hello->epoch &&
              SameToken(DecodeHello(*again)->token, hello->token),
          "another hello");
}

void CheckAnswer(absl::string_view packet) {
  const absl::Status answer = DecodeAnswer(packet);
  Require(DecodeAnswer(EncodeAnswer(answer)) == answer, "another answer");
}

void CheckDescriptor(absl::string_view text) {
  const auto descriptor = ParseDescriptor(text);
  if (!descriptor.ok()) return;
  const std::string written = FormatDescriptor(*descriptor);
  const auto again = ParseDescriptor(written);
  Require(again.ok() && FormatDescriptor(*again) == written,
          "another descriptor: " + written);
  Require(CheckReachable(descriptor->location, again->location).ok(),
          "does not reach itself: " + written);
}

}  // namespace
}  // namespace stagecoach::transport::shm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  stagecoach::transport::shm::CheckHello(input);
  stagecoach::transport::shm::CheckAnswer(input);
  stagecoach::transport::shm::CheckDescriptor(input);
  return 0;
}
