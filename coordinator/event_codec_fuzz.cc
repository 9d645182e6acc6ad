// Fuzz target of what a journal holds: events of any content, applied one after
// the other, are taken or refused, and the state's snapshot gives it back; the
// parts of any snapshot likewise.

#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "coordinator/cluster_state.h"
#include "coordinator/event_codec.h"

namespace stagecoach::coordinator {
namespace {

using fuzzing::Require;

void CheckSnapshot(const ClusterState& state) {
  const auto copy = ClusterState::FromSnapshot(state.ToSnapshot());
  Require(copy.ok(), copy.status().ToString());
  Require(copy->DebugString() == state.DebugString(),
          "a snapshot that is not the state");
}

// A damaged snapshot is refused or is some state.
void ReadSnapshot(fuzzing::FuzzInput* input) {
  std::vector<v1::SnapshotPart> parts;
  while (!input->empty()) {
    const absl::string_view record = input->Record();
    v1::SnapshotPart part;
    if (part.ParseFromArray(record.data(), static_cast<int>(record.size()))) {
      parts.push_back(std::move(part));
    }
  }
  const auto state = ClusterState::FromSnapshot(parts);
  if (state.ok()) CheckSnapshot(*state);
}

void ReadEvents(fuzzing::FuzzInput* input) {
  ClusterState state;
  while (!input->empty()) {
    const absl::string_view record = input->Record();
    v1::JournalEvent proto;
    if (!proto.ParseFromArray(record.data(), static_cast<int>(record.size()))) {
      continue;
    }
    const auto event = FromProto(proto);
    if (!event.ok()) continue;
    v1::JournalEvent written;
    ToProto(*event, &written);
    const auto again = FromProto(written);
    Require(again.ok(), again.status().ToString());
    v1::JournalEvent rewritten;
    ToProto(*again, &rewritten);
    Require(rewritten.SerializeAsString() == written.SerializeAsString(),
            "written otherwise: " + written.ShortDebugString());
    // The journal ends at the first that does not fit.
    if (!state.Apply(*event).ok()) return;
  }
  CheckSnapshot(state);
}

}  // namespace
}  // namespace stagecoach::coordinator

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stagecoach::fuzzing::FuzzInput input(data, size);
  if (input.Below(2) == 0) {
    stagecoach::coordinator::ReadEvents(&input);
  } else {
    stagecoach::coordinator::ReadSnapshot(&input);
  }
  return 0;
}
