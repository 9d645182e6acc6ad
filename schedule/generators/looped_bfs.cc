// Looped breadth first: every microbatch through a worker's first stage, then
// through its second, and so on; backwards from its last stage to its first.
//
// Lamy-Poirier, "Breadth-First Pipeline Parallelism", MLSys 2023
// (arXiv:2211.05953); PyTorch's ScheduleLoopedBFS. That one runs the backwards
// of a stage from the last microbatch to the first, as `published_order` does;
// by default they ascend.
//
// Bubble as interleaved: (P-1)T/V, for M < P (P-1+(V-1)(P-M))T/V; in flight MV
// chunks. Fewer and longer runs over one stage: gradients of a stage are
// complete early. Needs deep receives: about M/P, see docs/schedules.

#include "schedule/generators/builder.h"
#include "schedule/generators/generators.h"

namespace stagecoach::schedule {
namespace {

constexpr absl::string_view kKind = "looped-bfs";

std::vector<Action> List(const GenerateOptions& options, int worker) {
  const int total = options.microbatches;
  std::vector<Action> list;
  for (int v = 0; v < options.stages_per_worker; ++v) {
    for (int m = 0; m < total; ++m) {
      list.push_back(Forward(v * options.workers + worker, m));
    }
  }
  for (int v = options.stages_per_worker - 1; v >= 0; --v) {
    for (int m = 0; m < total; ++m) {
      list.push_back(Backward(v * options.workers + worker,
                              options.published_order ? total - 1 - m : m));
    }
  }
  return list;
}

Schedule GenerateLoopedBfs(const GenerateOptions& options) {
  Schedule schedule =
      EmptySchedule(kKind, options, RoundRobinPlacement(options));
  for (int worker = 0; worker < options.workers; ++worker) {
    schedule.actions[static_cast<size_t>(worker)] = List(options, worker);
  }
  return schedule;
}

}  // namespace

Generator LoopedBfs() {
  Generator generator;
  generator.kind = kKind;
  generator.description =
      "all microbatches through one stage, then the next; holds all of them";
  generator.generate = GenerateLoopedBfs;
  return generator;
}

}  // namespace stagecoach::schedule
