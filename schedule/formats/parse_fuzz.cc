// Fuzz target of the three parsers: whatever comes in is refused, or is a
// schedule that every form carries unchanged and that the verifier can judge.
//
//   clang++ -fsanitize=fuzzer,address ... parse_fuzz.cc
//
// bad_input_test replays it on damaged schedules.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "schedule/formats/formats.h"
#include "schedule/verifier.h"

namespace {

using stagecoach::schedule::Schedule;

void Require(const absl::StatusOr<Schedule>& again, const std::string& text) {
  if (!again.ok() || stagecoach::schedule::ToText(*again) != text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  const auto schedule = stagecoach::schedule::ParseAny(input, "input");
  if (!schedule.ok()) return 0;
  const std::string text = stagecoach::schedule::ToText(*schedule);
  Require(stagecoach::schedule::ParseText(text), text);
  Require(
      stagecoach::schedule::ParseJson(stagecoach::schedule::ToJson(*schedule)),
      text);
  Require(stagecoach::schedule::ParseProtoBytes(
              stagecoach::schedule::ToProtoBytes(*schedule)),
          text);
  stagecoach::schedule::Verify(*schedule);
  return 0;
}
