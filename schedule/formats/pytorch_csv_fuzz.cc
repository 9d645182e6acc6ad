// Fuzz target of PyTorch's CSV. The first byte is the send budget.

#include "absl/strings/string_view.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "schedule/formats/pytorch_csv.h"
#include "schedule/formats/testing/check_parsed.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stagecoach::fuzzing::FuzzInput input(data, size);
  const int send_budget = 1 + input.Below(4);
  stagecoach::schedule::testing::CheckParsed(
      stagecoach::schedule::ParsePytorchCsv(input.rest(), send_budget));
  return 0;
}
