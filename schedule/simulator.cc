#include "schedule/simulator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "schedule/list_run.h"
#include "schedule/simulated_memory.h"

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

absl::Status CheckBytes(const Schedule& schedule,
                        const SimulateOptions& options) {
  const size_t count = options.bytes.size();
  if (count > 1 && count != schedule.placement.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("bytes for ", count,
                     " stages; give one for all or one for each of the ",
                     schedule.stages()));
  }
  for (const StageBytes& bytes : options.bytes) {
    if (bytes.in_flight >= 0 && bytes.output >= 0) continue;
    return absl::InvalidArgumentError("bytes of a stage are negative");
  }
  for (const double value : {options.latency, options.bandwidth}) {
    if (std::isfinite(value) && value >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "latency or bandwidth is ", value, "; it must be 0 or more"));
  }
  return absl::OkStatus();
}

// Wire times by stage: of its output, and of its input's gradient, which is as
// large as the output of the stage before.
void SetWires(const Schedule& schedule, const SimulateOptions& simulate,
              ListRunOptions* options) {
  options->latency = simulate.latency;
  if (simulate.bytes.empty() || simulate.bandwidth == 0) return;
  options->gradient_wire.push_back(0);
  for (size_t s = 0; s < schedule.placement.size(); ++s) {
    const StageBytes& bytes =
        simulate.bytes.size() == 1 ? simulate.bytes[0] : simulate.bytes[s];
    const double wire = static_cast<double>(bytes.output) / simulate.bandwidth;
    options->activation_wire.push_back(wire);
    if (s + 1 < schedule.placement.size()) {
      options->gradient_wire.push_back(wire);
    }
  }
}

ListRunOptions RunOptions(const Schedule& schedule,
                          const SimulateOptions& simulate) {
  const std::vector<StageCosts>& costs = simulate.costs;
  ListRunOptions options;
  options.timeline = true;
  SetWires(schedule, simulate, &options);
  for (size_t s = 0; s < schedule.placement.size(); ++s) {
    const StageCosts& c = costs.size() == 1 ? costs[0] : costs[s];
    ComputeDurations durations;
    durations.forward = c.forward;
    durations.backward = c.FullBackward();
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

// Backwards from what ends last, each time to what its start waited for.
std::vector<CriticalAction> CriticalPath(const ListRun& run) {
  std::vector<CriticalAction> path;
  Moment at = run.last;
  while (at.index >= 0) {
    const TimedAction& timed =
        run.timeline[at.worker][static_cast<size_t>(at.index)];
    if (!path.empty()) path.back().waited = path.back().start - timed.end;
    CriticalAction& step = path.emplace_back();
    step.worker = WorkerIndex(at.worker);
    step.action = timed.action;
    step.start = timed.start;
    step.end = timed.end;
    step.wait = timed.cause.wait;
    at = timed.cause;
  }
  std::reverse(path.begin(), path.end());
  return path;
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

absl::string_view WaitName(Wait wait) {
  switch (wait) {
    case Wait::kNothing:
      return "";
    case Wait::kWorker:
      return "worker";
    case Wait::kHandOff:
      return "hand-off";
    case Wait::kArrival:
      return "arrival";
    case Wait::kGrant:
      return "grant";
    case Wait::kRelease:
      return "release";
    case Wait::kTied:
      return "tied";
  }
  return "";
}

absl::StatusOr<SimulateResult> Simulate(const Schedule& schedule,
                                        const SimulateOptions& options) {
  SC_RETURN_IF_ERROR(CheckCosts(schedule, options.costs));
  SC_RETURN_IF_ERROR(CheckBytes(schedule, options));
  SC_ASSIGN_OR_RETURN(const ListRun run,
                      RunLists(schedule, RunOptions(schedule, options)));
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
  result.critical_path = CriticalPath(run);
  if (!options.bytes.empty()) CountMemory(schedule, options, run, &result);
  return result;
}

}  // namespace stagecoach::schedule
