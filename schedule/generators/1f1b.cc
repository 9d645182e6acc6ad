// 1F1B: a short warm-up, then one forward and one backward in turn.
//
// Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML
// 2021 (arXiv:2006.09503), PipeDream-Flush; the order of Megatron-LM's
// forward_backward_pipelining_without_interleaving and PyTorch's Schedule1F1B.
//
// Stage s warms up with min(M, P-s) forwards, its first steady one included.
// Bubble (P-1)T; in flight min(M, P-s).

#include "schedule/generators/builder.h"
#include "schedule/generators/generators.h"

namespace stagecoach::schedule {
namespace {

constexpr absl::string_view kKind = "1f1b";

Schedule Generate1F1B(const GenerateOptions& options) {
  Schedule schedule =
      EmptySchedule(kKind, options, ContiguousPlacement(options));
  for (int worker = 0; worker < options.workers; ++worker) {
    schedule.actions[static_cast<size_t>(worker)] = OneForwardOneBackwardList(
        worker, options.microbatches, options.workers - worker);
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
