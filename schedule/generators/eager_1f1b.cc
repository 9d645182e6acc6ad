// Eager 1F1B: 1F1B that starts its forwards early, so that transfers overlap
// with computation, at the price of more microbatches in flight.
//
// Zhuang et al., "On Optimizing the Communication of Model Parallelism", MLSys
// 2023 (arXiv:2211.05322), section 4 (eager-1F1B), implemented in Alpa.
//
// Stage s warms up with min(M, 2(P-s)-1) forwards, its first steady one
// included. Bubble (P-1)T as 1F1B; in flight min(M, 2(P-s)-1).

#include "schedule/generators/builder.h"
#include "schedule/generators/generators.h"

namespace stagecoach::schedule {
namespace {

constexpr absl::string_view kKind = "eager-1f1b";

Schedule GenerateEager1F1B(const GenerateOptions& options) {
  Schedule schedule =
      EmptySchedule(kKind, options, ContiguousPlacement(options));
  for (int worker = 0; worker < options.workers; ++worker) {
    schedule.actions[static_cast<size_t>(worker)] = OneForwardOneBackwardList(
        worker, options.microbatches, 2 * (options.workers - worker) - 1);
  }
  return schedule;
}

}  // namespace

Generator Eager1F1B() {
  Generator generator;
  generator.kind = kKind;
  generator.description =
      "1F1B with a longer warm-up that hides transfers; holds up to 2P-1";
  generator.only_stages_per_worker = 1;
  generator.generate = GenerateEager1F1B;
  return generator;
}

}  // namespace stagecoach::schedule
