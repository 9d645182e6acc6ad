#include "schedule/simulated_memory.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace stagecoach::schedule {
namespace {

// At one time what was held before goes, then new bytes come, then what is
// held for no time goes: it counts for the peak.
enum class Rank { kGoes, kComes, kGoesAtOnce };

struct Change {
  double time = 0;
  Rank rank = Rank::kComes;
  int64_t in_flight = 0;
  int64_t held = 0;
};

class WorkerMemory {
 public:
  WorkerMemory(const Schedule& schedule, const SimulateOptions& options,
               const ListRun& run)
      : schedule_(schedule),
        options_(options),
        run_(run),
        backward_end_(run.output_left.size(), -1) {}

  std::vector<MemoryPoint> Of(const std::vector<TimedAction>& timeline);

 private:
  const StageBytes& BytesOf(StageIndex stage) const {
    return options_.bytes.size() == 1 ? options_.bytes[0]
                                      : options_.bytes[stage.index()];
  }
  size_t Key(const Action& action) const {
    return action.stage.index() * static_cast<size_t>(schedule_.microbatches) +
           action.microbatch.index();
  }
  void Hold(double from, double to, int64_t in_flight, int64_t held) {
    if (in_flight == 0 && held == 0) return;
    changes_.push_back(Change{from, Rank::kComes, in_flight, held});
    changes_.push_back(Change{to, to > from ? Rank::kGoes : Rank::kGoesAtOnce,
                              -in_flight, -held});
  }
  void AddForward(const TimedAction& forward, double backward_end);
  std::vector<MemoryPoint> Sum();

  const Schedule& schedule_;
  const SimulateOptions& options_;
  const ListRun& run_;
  std::vector<double> backward_end_;  // by key; each key is on one worker
  std::vector<Change> changes_;
};

void WorkerMemory::AddForward(const TimedAction& forward, double backward_end) {
  const StageIndex stage = forward.action.stage;
  const StageBytes& bytes = BytesOf(stage);
  Hold(forward.start, backward_end, bytes.in_flight, 0);
  if (!schedule_.SendsActivation(stage)) return;
  const size_t key = Key(forward.action);
  double released = backward_end;
  if (options_.release != ReleasePolicy::kNever) {
    released = run_.output_left[key];
  }
  if (options_.release == ReleasePolicy::kAcknowledged) {
    released = std::max(released, run_.output_acknowledged[key]);
  }
  Hold(forward.end, std::max(released, forward.end), 0, bytes.output);
}

std::vector<MemoryPoint> WorkerMemory::Sum() {
  std::sort(changes_.begin(), changes_.end(),
            [](const Change& a, const Change& b) {
              return std::tie(a.time, a.rank) < std::tie(b.time, b.rank);
            });
  std::vector<MemoryPoint> points;
  MemoryPoint now;
  for (const Change& change : changes_) {
    now.time = change.time;
    now.in_flight_bytes += change.in_flight;
    now.held_output_bytes += change.held;
    points.push_back(now);
  }
  return points;
}

std::vector<MemoryPoint> WorkerMemory::Of(
    const std::vector<TimedAction>& timeline) {
  changes_.clear();
  // From the end: the last action of a key ends its backward.
  for (auto it = timeline.rbegin(); it != timeline.rend(); ++it) {
    double& end = backward_end_[Key(it->action)];
    if (end < 0) end = it->end;
    if (it->action.kind == ActionKind::kForward) AddForward(*it, end);
  }
  return Sum();
}

int64_t PoolBytes(const Schedule& schedule, const SimulateOptions& options,
                  const EdgePlan& plan) {
  int64_t largest = 0;
  for (StageIndex stage(0); stage.value() + 1 < schedule.stages(); ++stage) {
    const WorkerIndex here = schedule.WorkerOf(stage);
    const WorkerIndex next = schedule.WorkerOf(stage.Next());
    const bool forth = plan.edge.direction == Direction::kActivation;
    if (plan.edge.from != (forth ? here : next)) continue;
    if (plan.edge.to != (forth ? next : here)) continue;
    largest = std::max(largest, options.bytes.size() == 1
                                    ? options.bytes[0].output
                                    : options.bytes[stage.index()].output);
  }
  return largest * plan.pool_slots;
}

}  // namespace

void CountMemory(const Schedule& schedule, const SimulateOptions& options,
                 const ListRun& run, SimulateResult* result) {
  WorkerMemory memory(schedule, options, run);
  for (size_t w = 0; w < run.timeline.size(); ++w) {
    result->memory.push_back(memory.Of(run.timeline[w]));
    WorkerTimes& worker = result->workers[w];
    for (const MemoryPoint& point : result->memory.back()) {
      worker.peak_in_flight_bytes =
          std::max(worker.peak_in_flight_bytes, point.in_flight_bytes);
      worker.peak_held_output_bytes =
          std::max(worker.peak_held_output_bytes, point.held_output_bytes);
    }
  }
  for (const EdgePlan& plan : schedule.edges) {
    result->workers[plan.edge.to.index()].receive_pool_bytes +=
        PoolBytes(schedule, options, plan);
  }
}

}  // namespace stagecoach::schedule
