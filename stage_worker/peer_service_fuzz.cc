// Fuzz target of what workers ask and answer each other: a question, then an
// answer.

#include <string>

#include "absl/status/status.h"
#include "base/ids.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "stage_worker/peer_control.h"
#include "stage_worker/peer_directory.h"
#include "stage_worker/peer_service.h"

namespace stagecoach::worker {
namespace {

using fuzzing::Require;

constexpr uint64_t kIncarnation = 7;

PeerAddress Peer() {
  PeerAddress peer;
  peer.worker = "w1";
  peer.incarnation = Incarnation(kIncarnation);
  return peer;
}

// Only who asks for this placement is told where it is.
void CheckQuestion(const v1::DescribePeerRequest& request) {
  PeerDirectory directory;
  PeerDirectory::Entry entry;
  entry.job_id = "j";
  entry.epoch = Epoch(3);
  entry.endpoints = {{"shm", "here"}};
  directory.Publish(entry);
  PeerControl control(Incarnation{kIncarnation});
  StateVault vault(&memory::AccountingAllocator::Process());
  const PeerService service("w1", Incarnation(kIncarnation), &directory,
                            &control, &vault);
  v1::DescribePeerResponse response;
  const absl::Status status = service.Answer(request, &response);
  const bool right = request.job_id() == "j" && request.fence().epoch() == 3;
  Require(status.ok() == right, "answers " + request.ShortDebugString() +
                                    " with " + status.ToString());
  if (!right) return;
  const auto descriptor = DescriptorIn(response, Peer(), "shm");
  Require(descriptor.ok() && *descriptor == "here",
          "does not understand its own answer");
}

void CheckAnswer(const v1::DescribePeerResponse& response) {
  const auto descriptor = DescriptorIn(response, Peer(), "shm");
  Require(descriptor.ok() || absl::IsFailedPrecondition(descriptor.status()),
          descriptor.status().ToString());
  Require(!descriptor.ok() || response.incarnation() == kIncarnation,
          "takes the answer of another process");
}

}  // namespace
}  // namespace stagecoach::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stagecoach::fuzzing::FuzzInput input(data, size);
  const absl::string_view question = input.Record();
  const absl::string_view answer = input.rest();
  stagecoach::v1::DescribePeerRequest request;
  if (request.ParseFromArray(question.data(),
                             static_cast<int>(question.size()))) {
    stagecoach::worker::CheckQuestion(request);
  }
  stagecoach::v1::DescribePeerResponse response;
  if (response.ParseFromArray(answer.data(), static_cast<int>(answer.size()))) {
    stagecoach::worker::CheckAnswer(response);
  }
  return 0;
}
