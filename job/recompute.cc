#include "job/recompute.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace stagecoach::job {
namespace {

// Above it every stage has one such layer anyway.
constexpr int64_t kMostApart = 1 << 16;

absl::StatusOr<Recompute> ParseOne(absl::string_view text) {
  Recompute recompute;
  if (text == "none") return recompute;
  if (text == "full") {
    recompute.full = true;
    return recompute;
  }
  absl::string_view number = text;
  if (absl::ConsumePrefix(&number, "every-") &&
      absl::SimpleAtoi(number, &recompute.every) && recompute.every >= 1 &&
      recompute.every <= kMostApart) {
    return recompute;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" is not \"none\", \"full\" or for example \"every-2\""));
}

}  // namespace

absl::StatusOr<std::vector<Recompute>> ParseRecompute(absl::string_view text) {
  std::vector<Recompute> stages;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    SC_ASSIGN_OR_RETURN(const Recompute one,
                        ParseOne(absl::StripAsciiWhitespace(part)));
    stages.push_back(one);
  }
  return stages;
}

Recompute RecomputeOf(const JobSpec& spec, StageIndex stage) {
  const auto stages = ParseRecompute(spec.memory.recompute);
  if (!stages.ok()) return {};
  return stages->size() == 1 || stage.index() >= stages->size()
             ? stages->front()
             : (*stages)[stage.index()];
}

}  // namespace stagecoach::job
