// 1F1B: a short warm-up, then one forward and one backward in turn.
//
// Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML
// 2021 (arXiv:2006.09503), PipeDream-Flush; the order of Megatron-LM's
// forward_backward_pipelining_without_interleaving and PyTorch's Schedule1F1B.
//
// Stage s warms up with min(M, P-s) forwards, its first steady one included.
// Bubble (P-1)T; in flight min(M, P-s).

#include <algorithm>

#include "schedule/generators/builder.h"
#include "schedule/generators/generators.h"

namespace stagecoach::schedule {
namespace {

constexpr absl::string_view kKind = "1f1b";

std::vector<Action> List(const GenerateOptions& options, int stage) {
  const int total = options.microbatches;
  const int warm_up = std::min(total, options.workers - stage);
  std::vector<Action> list;
  for (int m = 0; m < warm_up; ++m) list.push_back(Forward(stage, m));
  for (int m = 0; m < total; ++m) {
    list.push_back(Backward(stage, m));
    if (warm_up + m < total) list.push_back(Forward(stage, warm_up + m));
  }
  return list;
}

Schedule Generate1F1B(const GenerateOptions& options) {
  Schedule schedule =
      EmptySchedule(kKind, options, ContiguousPlacement(options));
  for (int worker = 0; worker < options.workers; ++worker) {
    schedule.actions[static_cast<size_t>(worker)] = List(options, worker);
  }
  return schedule;
}

}  // namespace

Generator OneForwardOneBackward() {
  Generator generator;
  generator.kind = kKind;
  generator.description =
      "one forward and one backward in turn; holds at most P microbatches";
  generator.only_stages_per_worker = 1;
  generator.generate = Generate1F1B;
  return generator;
}

}  // namespace stagecoach::schedule
