#ifndef STAGECOACH_JOB_RECOMPUTE_H_
#define STAGECOACH_JOB_RECOMPUTE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "job/job_spec.h"

namespace stagecoach::job {

// How much of one stage's forward is run again right before its backward
// instead of being kept.
struct Recompute {
  // All of it, from the stage's input.
  bool full = false;
  // Otherwise the first of every so many of its layers; 0: none.
  int64_t every = 0;

  // Whether a layer of the stage, counted from 0, is one of those.
  bool Layer(int64_t layer) const { return every > 0 && layer % every == 0; }
  friend bool operator==(const Recompute& a, const Recompute& b) {
    return a.full == b.full && a.every == b.every;
  }
};

// Reads memory.recompute: "none", "full" or "every-N", one for all stages or,
// separated by commas, one for each. kInvalidArgument if it is none of them.
absl::StatusOr<std::vector<Recompute>> ParseRecompute(absl::string_view text);

// Of a stage of a valid spec.
Recompute RecomputeOf(const JobSpec& spec, StageIndex stage);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_RECOMPUTE_H_
