// Fuzz target of schedules as JSON.

#include "absl/strings/string_view.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "schedule/formats/formats.h"
#include "schedule/formats/testing/check_parsed.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  stagecoach::schedule::testing::CheckParsed(
      stagecoach::schedule::ParseJson(input));
  return 0;
}
