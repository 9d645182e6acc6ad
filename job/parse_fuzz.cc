// Fuzz target of job specs as people write them: a file, and up to two --set.
// What Validate accepts can be planned and sent.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "job/parse.h"
#include "job/plan.h"
#include "job/schedule_source.h"
#include "job/spec_proto.h"

namespace stagecoach::job {
namespace {

using fuzzing::Require;

// Bounds the time of one planning.
constexpr int64_t kMostChunks = 256;

void RequireRefusal(const absl::Status& status) {
  Require(absl::IsInvalidArgument(status) && !status.message().empty(),
          "refused as " + status.ToString());
}

// Of all files a fuzzer could name, two that do no harm.
void NameHarmlessFiles(JobSpec* spec) {
  spec->data.path = "/proc/self/exe";
  if (IsScheduleFile(spec->pipeline.schedule)) {
    spec->pipeline.schedule = "/no/such/file";
  }
}

void CheckWire(const JobSpec& spec) {
  v1::JobSpec sent;
  ToProto(spec, &sent);
  const auto received = FromProto(sent);
  Require(received.ok(), "cannot be sent: " + received.status().ToString());
  v1::JobSpec again;
  ToProto(*received, &again);
  Require(again.SerializeAsString() == sent.SerializeAsString(),
          "changes on the wire: " + sent.ShortDebugString());
}

void CheckParsed(ParsedSpec parsed) {
  NameHarmlessFiles(&parsed.spec);
  CheckWire(parsed.spec);
  const absl::Status valid = Validate(parsed);
  if (!valid.ok()) return RequireRefusal(valid);
  const JobSpec& spec = parsed.spec;
  if (spec.stages() * spec.training.microbatches > kMostChunks) return;
  const absl::Status planned = PlanJob(spec, nullptr).status();
  Require(planned.ok(), "valid, but not planned: " + planned.ToString());
}

}  // namespace
}  // namespace stagecoach::job

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stagecoach::fuzzing::FuzzInput input(data, size);
  std::vector<std::string> overrides(static_cast<size_t>(input.Below(3)));
  for (std::string& text : overrides) text = std::string(input.Record());
  const auto parsed = stagecoach::job::ParseJobSpec(
      input.rest(), "/fuzzed/job.toml", overrides);
  if (parsed.ok()) {
    stagecoach::job::CheckParsed(*parsed);
  } else {
    stagecoach::job::RequireRefusal(parsed.status());
  }
  return 0;
}
