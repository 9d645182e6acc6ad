#include "schedule/formats/testing/check_parsed.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "schedule/formats/formats.h"
#include "schedule/lowering.h"
#include "schedule/simulator.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule::testing {
namespace {

using fuzzing::Require;

void CheckForm(const char* form, const absl::StatusOr<Schedule>& again,
               const std::string& text) {
  Require(again.ok(), absl::StrCat(form, " does not read what it wrote: ",
                                   again.status().ToString(), "\n", text));
  Require(ToText(*again) == text,
          absl::StrCat(form, " reads another schedule: ", text));
}

bool ForwardOnly(const Schedule& schedule) {
  for (const auto& list : schedule.actions) {
    for (const Action& action : list) {
      if (IsCompute(action.kind) && action.kind != ActionKind::kForward) {
        return false;
      }
    }
  }
  return true;
}

// With or without communication.
void CheckJudged(const Schedule& schedule) {
  VerifyOptions options;
  options.forward_only = ForwardOnly(schedule);
  const Verdict verdict = Verify(schedule, options);
  const auto run = Simulate(schedule);
  Require(!verdict.ok || run.ok(),
          absl::StrCat("verified, but the simulator says: ",
                       run.status().ToString(), "\n", ToText(schedule)));
  if (run.ok()) DrawTimeline(schedule);
}

}  // namespace

void CheckParsed(const absl::StatusOr<Schedule>& parsed) {
  if (!parsed.ok()) {
    Require(absl::IsInvalidArgument(parsed.status()) &&
                !parsed.status().message().empty(),
            absl::StrCat("refused as ", parsed.status().ToString()));
    return;
  }
  const std::string text = ToText(*parsed);
  CheckForm("text", ParseText(text), text);
  CheckForm("JSON", ParseJson(ToJson(*parsed)), text);
  CheckForm("protobuf", ParseProtoBytes(ToProtoBytes(*parsed)), text);
  CheckJudged(*parsed);
  if (parsed->lowered()) return;
  const auto lowered = Lower(*parsed, LoweringOptions());
  if (lowered.ok()) CheckJudged(*lowered);
}

}  // namespace stagecoach::schedule::testing
