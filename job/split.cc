#include "job/split.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace stagecoach::job {
namespace {

// As even as possible; the earlier stages take the remainder.
std::vector<int64_t> EvenSplit(int64_t layers, int64_t stages) {
  std::vector<int64_t> split(static_cast<size_t>(stages), layers / stages);
  std::fill_n(split.begin(), layers % stages, layers / stages + 1);
  return split;
}

// "[2, 2, 2, 2]"
std::string Text(const std::vector<int64_t>& split) {
  return absl::StrCat("[", absl::StrJoin(split, ", "), "]");
}

absl::Status CheckCover(int64_t layers, const std::vector<int64_t>& split) {
  const std::string remedy =
      absl::StrCat("; try \"auto\" or ",
                   Text(EvenSplit(layers, static_cast<int64_t>(split.size()))));
  int64_t covered = 0;
  for (size_t stage = 0; stage < split.size(); ++stage) {
    if (split[stage] < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", stage, " has ", split[stage],
                       " layers and needs at least 1", remedy));
    }
    // Not `covered + split[stage] > layers`: the sum could overflow.
    if (split[stage] > layers - covered) {
      return absl::InvalidArgumentError(absl::StrCat(
          Text(split), " gives stage ", stage, " layer ", layers,
          ", but the model has only layers 0 to ", layers - 1, remedy));
    }
    covered += split[stage];
  }
  if (covered == layers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Text(split), " covers ", covered, " of ", layers,
                   " layers and loses layer ", covered, remedy));
}

}  // namespace

absl::StatusOr<std::vector<StageLayers>> SplitLayers(
    int64_t layers, int64_t stages, const std::vector<int64_t>& split) {
  if (stages < 1) {
    return absl::InvalidArgumentError("a pipeline needs at least one stage");
  }
  if (stages > layers) {
    return absl::InvalidArgumentError(absl::StrCat(
        stages, " stages need at least ", stages, " layers, the model has ",
        layers, "; lower pipeline.workers or pipeline.stages_per_worker, or ",
        "raise model.layers"));
  }
  const std::vector<int64_t> counts =
      split.empty() ? EvenSplit(layers, stages) : split;
  if (static_cast<int64_t>(counts.size()) != stages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lists ", counts.size(), " stages, but workers x stages_per_worker = ",
        stages, "; try \"auto\" or ", Text(EvenSplit(layers, stages))));
  }
  SC_RETURN_IF_ERROR(CheckCover(layers, counts));
  std::vector<StageLayers> slices;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    StageLayers slice;
    slice.begin = begin;
    slice.end = begin += count;
    slices.push_back(slice);
  }
  return slices;
}

}  // namespace stagecoach::job
