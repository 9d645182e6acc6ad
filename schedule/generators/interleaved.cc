// Interleaved 1F1B: V stages (chunks) per worker, stage s on worker s mod P.
//
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters Using Megatron-LM", SC 2021 (arXiv:2104.04473), section 2.2. The
// paper needs P to divide M. For other M microbatches go in balanced groups, as
// PyTorch's ScheduleInterleaved1F1B has it where they come out even: a group
// passes through all chunks before the next one starts. A last group shorter
// than the warm-up expects deadlocks, so sizes differ by at most one and the
// larger come first.
//
// With N the first group's size, worker w warms up with 2(P-1-w) + (V-1)N
// forwards. Bubble (P-1)T/V; in flight min(MV, 2(P-1-w) + (V-1)N + 1) chunks.

#include <algorithm>

#include "schedule/generators/builder.h"
#include "schedule/generators/generators.h"

namespace stagecoach::schedule {
namespace {

constexpr absl::string_view kKind = "interleaved";

std::vector<int> GroupSizes(const GenerateOptions& options) {
  const int m = options.microbatches;
  const int wanted =
      options.group_size == 0 ? options.workers : options.group_size;
  const int groups = std::max(1, m / wanted);
  std::vector<int> sizes(static_cast<size_t>(groups), m / groups);
  for (int i = 0; i < m % groups; ++i) ++sizes[static_cast<size_t>(i)];
  return sizes;
}

// (stage, microbatch) of all forwards of a worker in order; of all backwards if
// the chunks descend.
std::vector<std::pair<int, int>> Order(const GenerateOptions& options,
                                       const std::vector<int>& groups,
                                       int worker, bool descending) {
  std::vector<std::pair<int, int>> order;
  int first = 0;
  for (const int size : groups) {
    for (int v = 0; v < options.stages_per_worker; ++v) {
      const int chunk = descending ? options.stages_per_worker - 1 - v : v;
      for (int m = first; m < first + size; ++m) {
        order.emplace_back(chunk * options.workers + worker, m);
      }
    }
    first += size;
  }
  return order;
}

// Forwards before the first backward. A worker that runs further ahead than the
// last one by more than a group, when more groups follow, waits for a forward
// behind a backward that waits for it: groups smaller than P warm up alike on
// all workers.
int WarmUp(const GenerateOptions& options, const std::vector<int>& groups,
           int worker) {
  const int p = options.workers;
  const int group = groups.front();
  if (groups.size() > 1 && group < p) {
    return 2 * (p - 1) + (options.stages_per_worker - 1) * p;
  }
  return 2 * (p - 1 - worker) + (options.stages_per_worker - 1) * group;
}

std::vector<Action> List(const GenerateOptions& options,
                         const std::vector<int>& groups, int worker) {
  const auto forwards = Order(options, groups, worker, /*descending=*/false);
  const auto backwards = Order(options, groups, worker, /*descending=*/true);
  const size_t warm_up = std::min(
      forwards.size(), static_cast<size_t>(WarmUp(options, groups, worker)));
  std::vector<Action> list;
  size_t next_backward = 0;
  for (size_t i = 0; i < forwards.size(); ++i) {
    list.push_back(Forward(forwards[i].first, forwards[i].second));
    if (i < warm_up) continue;
    const auto& [stage, m] = backwards[next_backward++];
    list.push_back(Backward(stage, m));
  }
  for (; next_backward < backwards.size(); ++next_backward) {
    const auto& [stage, m] = backwards[next_backward];
    list.push_back(Backward(stage, m));
  }
  return list;
}

Schedule GenerateInterleaved(const GenerateOptions& options) {
  Schedule schedule =
      EmptySchedule(kKind, options, RoundRobinPlacement(options));
  const std::vector<int> groups = GroupSizes(options);
  for (int worker = 0; worker < options.workers; ++worker) {
    schedule.actions[static_cast<size_t>(worker)] =
        List(options, groups, worker);
  }
  return schedule;
}

}  // namespace

Generator Interleaved() {
  Generator generator;
  generator.kind = kKind;
  generator.description =
      "1F1B over several stages per worker; a bubble V times smaller";
  generator.takes_group_size = true;
  generator.generate = GenerateInterleaved;
  return generator;
}

}  // namespace stagecoach::schedule
