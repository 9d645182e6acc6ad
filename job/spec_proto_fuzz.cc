// Fuzz target of job specs as they come over the wire: what is valid can be
// planned.

#include <string>

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

void CheckSpec(const JobSpec& spec) {
  v1::JobSpec proto;
  ToProto(spec, &proto);
  const auto again = FromProto(proto);
  Require(again.ok(), "does not read what it wrote: " +
                          again.status().ToString() + proto.ShortDebugString());
  if (IsScheduleFile(spec.pipeline.schedule) || !Validate(spec).ok() ||
      spec.stages() * spec.training.microbatches > kMostChunks) {
    return;
  }
  const absl::Status planned = PlanJob(spec, nullptr).status();
  Require(planned.ok(), "valid, but not planned: " + planned.ToString() + "\n" +
                            proto.ShortDebugString());
}

}  // namespace
}  // namespace stagecoach::job

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stagecoach::v1::JobSpec proto;
  if (!proto.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto spec = stagecoach::job::FromProto(proto);
  if (spec.ok()) {
    stagecoach::job::CheckSpec(*spec);
  } else {
    stagecoach::fuzzing::Require(absl::IsInvalidArgument(spec.status()),
                                 spec.status().ToString());
  }
  return 0;
}
