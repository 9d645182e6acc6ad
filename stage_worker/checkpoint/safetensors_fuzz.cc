// Fuzz target of safetensors files: each tensor lies within the file, has the
// bytes of its shape, and shares none with another.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "stage_worker/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace checkpoint = stagecoach::checkpoint;
  using stagecoach::fuzzing::Require;
  const auto header = checkpoint::ParseSafetensorsHeader(
      absl::string_view(reinterpret_cast<const char*>(data), size));
  if (!header.ok()) {
    Require(absl::IsInvalidArgument(header.status()),
            header.status().ToString());
    return 0;
  }
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto& [name, tensor] : header->tensors) {
    Require(!name.empty(), "a tensor without a name");
    const auto bytes = static_cast<int64_t>(tensor.descriptor.bytes());
    Require(bytes >= 0, "a tensor of fewer than no bytes");
    const uint64_t end = tensor.begin + static_cast<uint64_t>(bytes);
    Require(tensor.begin <= end && end <= size, "a tensor beyond the file");
    ranges.emplace_back(tensor.begin, end);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    Require(ranges[i - 1].second <= ranges[i].first, "two tensors overlap");
  }
  return 0;
}
