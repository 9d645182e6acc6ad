#include "schedule/simulator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "schedule/list_run.h"

namespace stagecoach::schedule {
namespace {

absl::Status CheckCosts(const Schedule& schedule,
                        const std::vector<StageCosts>& costs) {
  if (costs.size() != 1 && costs.size() != schedule.placement.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("costs for ", costs.size(),
                     " stages; give one for all or one for "
                     "each of the ",
                     schedule.stages()));
  }
  for (size_t i = 0; i < costs.size(); ++i) {
    for (const double cost : {costs[i].forward, costs[i].backward_input,
                              costs[i].backward_weight}) {
      if (std::isfinite(cost) && cost >= 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("cost ", cost, " of stage ", i,
                       " is not a duration; it must be 0 or more"));
    }
  }
  return absl::OkStatus();
}

ListRunOptions RunOptions(const Schedule& schedule,
                          const std::vector<StageCosts>& costs) {
  ListRunOptions options;
  options.timeline = true;
  for (size_t s = 0; s < schedule.placement.size(); ++s) {
    const StageCosts& c = costs.size() == 1 ? costs[0] : costs[s];
    ComputeDurations durations;
    durations.forward = c.forward;
    durations.backward = c.backward_input + c.backward_weight;
    durations.backward_input = c.backward_input;
    durations.backward_weight = c.backward_weight;
    options.durations.push_back(durations);
  }
  return options;
}

bool EndsBackward(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight;
}

bool HasBackward(const Schedule& schedule) {
  for (const auto& list : schedule.actions) {
    for (const Action& action : list) {
      if (EndsBackward(action.kind)) return true;
    }
  }
  return false;
}

// Counts along a list: what a forward adds, the end of its backward takes away;
// without backwards, the forward itself does.
class Level {
 public:
  explicit Level(bool has_backward) : has_backward_(has_backward) {}
  void Count(ActionKind kind) {
    if (kind == ActionKind::kForward) peak_ = std::max(peak_, ++now_);
    if (has_backward_ ? EndsBackward(kind) : kind == ActionKind::kForward) {
      --now_;
    }
  }
  int peak() const { return peak_; }

 private:
  const bool has_backward_;
  int now_ = 0;
  int peak_ = 0;
};

void CountPeaks(const Schedule& schedule, std::vector<WorkerTimes>* workers) {
  const bool has_backward = HasBackward(schedule);
  for (size_t w = 0; w < schedule.actions.size(); ++w) {
    Level in_flight(has_backward);
    Level held(has_backward);
    for (const Action& action : schedule.actions[w]) {
      in_flight.Count(action.kind);
      if (schedule.SendsActivation(action.stage)) held.Count(action.kind);
    }
    (*workers)[w].peak_in_flight = in_flight.peak();
    (*workers)[w].peak_held_outputs_never = held.peak();
  }
}

std::vector<TimelineEntry> Entries(const std::vector<TimedAction>& actions) {
  std::vector<TimelineEntry> entries;
  entries.reserve(actions.size());
  for (const TimedAction& timed : actions) {
    entries.push_back(TimelineEntry{timed.action, timed.start, timed.end});
  }
  return entries;
}

}  // namespace

absl::StatusOr<SimulateResult> Simulate(const Schedule& schedule,
                                        const SimulateOptions& options) {
  SC_RETURN_IF_ERROR(CheckCosts(schedule, options.costs));
  SC_ASSIGN_OR_RETURN(const ListRun run,
                      RunLists(schedule, RunOptions(schedule, options.costs)));
  if (!run.finished) {
    return absl::FailedPreconditionError(
        absl::StrCat("the lists deadlock: ", run.stuck,
                     "; `schedule verify` names the cycle"));
  }
  SimulateResult result;
  result.makespan = run.makespan;
  double idle = 0;
  for (const double busy : run.busy) {
    WorkerTimes times;
    times.busy = busy;
    times.idle = run.makespan - busy;
    idle += times.idle;
    result.workers.push_back(times);
  }
  if (run.makespan > 0) {
    result.bubble_ratio = idle / (schedule.workers * run.makespan);
  }
  CountPeaks(schedule, &result.workers);
  for (const auto& actions : run.timeline) {
    result.timeline.push_back(Entries(actions));
  }
  return result;
}

}  // namespace stagecoach::schedule
