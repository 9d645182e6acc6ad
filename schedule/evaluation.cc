#include "schedule/evaluation.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "schedule/lowering.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

constexpr char kKind[] = "forward-only";

Action Forward(int stage, int microbatch) {
  Action action;
  action.kind = ActionKind::kForward;
  action.stage = StageIndex(stage);
  action.microbatch = MicrobatchIndex(microbatch);
  return action;
}

Schedule EmptyLists(const Schedule& training, int microbatches) {
  Schedule schedule;
  schedule.kind = kKind;
  schedule.workers = training.workers;
  schedule.stages_per_worker = training.stages_per_worker;
  schedule.microbatches = microbatches;
  schedule.placement = training.placement;
  schedule.actions.resize(static_cast<size_t>(training.workers));
  return schedule;
}

// By list scheduling with forwards of length 1: a worker takes what can start
// first, of several the latest stage, so that microbatches leave as early as
// they can.
Schedule FullPipeline(const Schedule& training, int microbatches) {
  Schedule schedule = EmptyLists(training, microbatches);
  const auto stages = static_cast<size_t>(training.stages());
  std::vector<int> next(stages, 0);  // microbatch that each stage takes next
  std::vector<int64_t> ready(stages, 0);  // when its input is there
  // When each microbatch left a stage.
  std::vector<std::vector<int64_t>> done(
      stages, std::vector<int64_t>(static_cast<size_t>(microbatches), 0));
  std::vector<int64_t> idle_from(static_cast<size_t>(training.workers), 0);
  for (int64_t left = int64_t{microbatches} * training.stages(); left > 0;
       --left) {
    int best = -1;
    int64_t best_start = std::numeric_limits<int64_t>::max();
    for (size_t s = 0; s < stages; ++s) {
      if (next[s] == microbatches) continue;
      if (s > 0 && next[s] >= next[s - 1]) continue;  // has no input yet
      const int64_t start =
          std::max(ready[s], idle_from[training.placement[s].index()]);
      if (start > best_start) continue;
      best = static_cast<int>(s);
      best_start = start;
    }
    const auto s = static_cast<size_t>(best);
    const size_t worker = training.placement[s].index();
    const int microbatch = next[s]++;
    schedule.actions[worker].push_back(Forward(best, microbatch));
    idle_from[worker] = best_start + 1;
    done[s][static_cast<size_t>(microbatch)] = best_start + 1;
    // Only now is it known when the next stage's input comes.
    if (s + 1 < stages && next[s + 1] == microbatch) {
      ready[s + 1] = best_start + 1;
    }
    if (s > 0 && next[s] < next[s - 1]) {
      ready[s] = done[s - 1][static_cast<size_t>(next[s])];
    }
  }
  return schedule;
}

// One microbatch after the other: slow, but live with any receive depths.
Schedule OneByOne(const Schedule& training, int microbatches) {
  Schedule schedule = EmptyLists(training, microbatches);
  for (int m = 0; m < microbatches; ++m) {
    for (int s = 0; s < training.stages(); ++s) {
      schedule.actions[training.placement[static_cast<size_t>(s)].index()]
          .push_back(Forward(s, m));
    }
  }
  return schedule;
}

absl::StatusOr<Schedule> LowerOnto(const Schedule& training,
                                   const Schedule& compute) {
  LoweringOptions options;
  options.send_budget = training.send_budget;
  SC_ASSIGN_OR_RETURN(Schedule lowered, Lower(compute, options));
  for (EdgePlan& plan : lowered.edges) {
    const auto same = std::find_if(
        training.edges.begin(), training.edges.end(),
        [&](const EdgePlan& other) { return other.edge == plan.edge; });
    if (same == training.edges.end()) {
      return absl::InternalError(absl::StrCat("edge ", ToString(plan.edge),
                                              " is not one of the training's"));
    }
    plan = *same;
  }
  VerifyOptions demands;
  demands.forward_only = true;
  SC_RETURN_IF_ERROR(Verify(lowered, demands).ToStatus());
  return lowered;
}

}  // namespace

absl::StatusOr<Schedule> EvaluationSchedule(const Schedule& training,
                                            int microbatches) {
  if (!training.lowered() || microbatches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("an evaluation of ", microbatches,
                     " microbatches over a schedule that ",
                     training.lowered() ? "is" : "is not", " lowered"));
  }
  absl::StatusOr<Schedule> full =
      LowerOnto(training, FullPipeline(training, microbatches));
  return full.ok() ? full
                   : LowerOnto(training, OneByOne(training, microbatches));
}

}  // namespace stagecoach::schedule
